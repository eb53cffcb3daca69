//! Ceph block devices: images, their watchers, kernel map and unmap, and who keeps a device busy.

mod deadline;
mod error;

pub use error::{Details, Error, ErrorKind, Result};
