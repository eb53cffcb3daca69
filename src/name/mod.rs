//! Names of pools, namespaces, images and snapshots, and of the objects that belong to an image.
//!
//! A name is checked twice. What Ceph allows is checked when the name is made, so that every value of these types can
//! be passed to librados and librbd. What the kernel allows is less (its map request is split at white space and
//! commas) and is checked by `check_for_kernel`, only where a name goes there.
//!
//! A name that comes out of a listing may be neither: it is a [`RawName`], and a listing never fails because of one.

mod error;
mod ident;
mod object;
mod raw;
mod spec;

pub use error::NameError;
pub(crate) use ident::KERNEL_WRITE_LIMIT;
pub use ident::{ImageId, ImageName, NamespaceName, PoolName, SnapshotName};
pub use object::{BlockNamePrefix, HeaderObject};
pub use raw::RawName;
pub use spec::ImageSpec;
