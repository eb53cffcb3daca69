//! Ceph block devices: images, their watchers, kernel map and unmap, and who keeps a device busy.

pub mod address;
mod deadline;
mod error;
pub mod feature;
#[cfg(feature = "librados")]
mod ffi;
#[cfg(feature = "librados")]
pub mod image;
mod lock;
pub mod name;
#[cfg(feature = "librados")]
pub mod rados;
mod secret;
mod text;
#[cfg(feature = "librados")]
mod version;
mod watcher;

pub use address::EntityAddress;
pub use error::{Details, Error, ErrorKind, Result};
pub use feature::Features;
#[cfg(feature = "librados")]
pub use image::{Image, ImageInfo};
pub use lock::{LockMode, LockOwner, Locker};
pub use name::{
    BlockNamePrefix, HeaderObject, ImageId, ImageName, ImageSpec, NamespaceName, PoolName, RawName, SnapshotName,
};
#[cfg(feature = "librados")]
pub use rados::{Cluster, Pool};
pub use secret::Secret;
#[cfg(feature = "librados")]
pub use version::Version;
pub use watcher::{Watcher, WatcherKind, parse_client_id};
