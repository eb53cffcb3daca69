//! Ceph block devices: images and their watchers through librados and librbd.
//!
//! What an operator finds out with `rbd info`, `rados listwatchers` and `ceph`, as typed values, typed errors and
//! deadlines, over one connection and without running a program.
//!
#![cfg_attr(feature = "librados", doc = "```no_run")]
#![cfg_attr(not(feature = "librados"), doc = "```ignore")]
//! use rbd::Cluster;
//!
//! fn main() -> rbd::Result<()> {
//!     let cluster = Cluster::builder().user("admin").connect()?;
//!     let image = cluster.open_read_only(&"kube/pvc-1".parse()?)?;
//!     println!("{}", image.info()?); // all that `rbd info` prints
//!     for watcher in image.watchers()? {
//!         println!("{watcher} ({})", watcher.kind());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # The way in
//!
//! `Cluster` → `Pool` → `Image`: `Cluster::builder` connects, `Cluster::pool` opens a pool,
//! `Pool::open_read_only` an image; `Cluster::open_read_only` takes the whole way at once. Handles are cheap to clone,
//! can be sent and shared between threads and dropped in any order: module `rados` has the table.
//!
//! [`Krbd`](krbd::Krbd) → [`Device`](krbd::Device): map, unmap and list through the kernel, with no Ceph library;
//! [`config`] reads ceph.conf and keyrings for it.
//!
//! Names, addresses, features and their plans are plain values ([`name`], [`address`], [`feature`]) that know no
//! cluster. `Usage` joins what cluster and host know: who uses an image, anywhere, and what frees it. Every call fails
//! with the one [`Error`]: what was done, to what, the errno, and an [`ErrorKind`] to match on.
//!
//! # Features
//!
//! | feature | default | what it adds | needs |
//! |---|---|---|---|
//! | `librados` | yes | `rados`, `image`, `usage`: all that asks a cluster | librados and librbd 16.2 or later |
//! | `list-watchers` | yes | the watchers of any object, the scan of a pool | a C++17 compiler, to build |
//! | `serde` | yes | `Serialize` for what the library returns | |
//! | `kubernetes` | no | `kubernetes`: what kubelet prints, explained; an image as a volume | |
//! | `buildtime-bindgen` | no | bindings made from the installed headers | libclang and the headers, to build |
//! | `tracing` | no | an event for each call to the cluster | |
//!
//! Without any the crate is its values, [`krbd`], [`config`], [`holder`] and [`remedy`], and links no library of Ceph.

#![deny(unsafe_code)]

pub mod address;
pub mod attach;
pub mod config;
mod deadline;
mod device_number;
#[cfg(feature = "librados")]
mod encoding;
mod error;
pub mod feature;
#[cfg(feature = "librados")]
mod ffi;
mod fsid;
pub mod holder;
#[cfg(feature = "librados")]
pub mod image;
pub mod krbd;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
mod lock;
pub mod name;
#[cfg(feature = "librados")]
pub mod rados;
pub mod remedy;
mod secret;
mod text;
mod thread;
mod tree;
#[cfg(feature = "librados")]
pub mod usage;
#[cfg(feature = "librados")]
mod version;
mod watcher;

pub use address::EntityAddress;
#[cfg(feature = "librados")]
pub use attach::Attach;
pub use attach::Detach;
pub use device_number::DeviceNumber;
pub use error::{Details, Error, ErrorKind, Result};
pub use feature::Features;
pub use fsid::Fsid;
pub use holder::{Holder, Holders};
#[cfg(feature = "librados")]
pub use image::{Image, ImageInfo};
pub use lock::{LockMode, LockOwner, Locker};
pub use name::{
    BlockNamePrefix, HeaderObject, ImageId, ImageName, ImageSpec, NamespaceName, PoolName, RawName, SnapshotName,
};
#[cfg(feature = "librados")]
pub use rados::{Cluster, Pool};
pub use remedy::Remedy;
pub use secret::Secret;
#[cfg(feature = "librados")]
pub use usage::Usage;
#[cfg(feature = "librados")]
pub use version::Version;
pub use watcher::{Watcher, WatcherKind, parse_client_id};

/// The program in the README compiles.
#[cfg(all(doctest, feature = "librados"))]
#[doc = include_str!("../README.md")]
struct Readme;
