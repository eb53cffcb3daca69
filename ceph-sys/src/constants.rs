//! Constants that bindgen leaves out: they are casts, or calls of a macro.

use super::{LIBRADOS_VER_EXTRA, LIBRADOS_VER_MAJOR, LIBRADOS_VER_MINOR};
use super::{LIBRBD_VER_EXTRA, LIBRBD_VER_MAJOR, LIBRBD_VER_MINOR};

/// For `rados_ioctx_snap_set_read`: read the object as it is now, not a snapshot of it.
pub const LIBRADOS_SNAP_HEAD: u64 = -2_i64 as u64;

/// For `rados_ioctx_snap_set_read`: read no one snapshot of the object, but the list of them.
pub const LIBRADOS_SNAP_DIR: u64 = -1_i64 as u64;

/// The version of librados' interface. It is 3.0.0 in every release from 16 to 20, so it tells none from another.
pub const LIBRADOS_VERSION_CODE: u32 = (LIBRADOS_VER_MAJOR << 16) + (LIBRADOS_VER_MINOR << 8) + LIBRADOS_VER_EXTRA;

/// The version of librbd's interface that the bindings were made from. `rbd_version` says that of the library in use.
pub const LIBRBD_VERSION_CODE: u32 = (LIBRBD_VER_MAJOR << 16) + (LIBRBD_VER_MINOR << 8) + LIBRBD_VER_EXTRA;
