//! Ceph block devices: images, their watchers, kernel map and unmap, and who keeps a device busy.

pub mod address;
mod deadline;
mod error;
pub mod feature;
mod lock;
pub mod name;
mod text;
mod watcher;

pub use address::EntityAddress;
pub use error::{Details, Error, ErrorKind, Result};
pub use feature::Features;
pub use lock::{LockMode, LockOwner, Locker};
pub use name::{
    BlockNamePrefix, HeaderObject, ImageId, ImageName, ImageSpec, NamespaceName, PoolName, RawName, SnapshotName,
};
pub use watcher::{Watcher, WatcherKind, parse_client_id};
