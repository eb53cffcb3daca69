//! The declarations of `list_watchers.cpp`.

use core::ffi::{c_char, c_int};

use crate::{obj_watch_t, rados_completion_t, rados_ioctx_t};

/// The watchers of an object, a list that librados fills.
#[repr(C)]
#[derive(Debug)]
pub struct ceph_sys_watchers {
    opaque: [u8; 0],
}

unsafe extern "C" {
    /// Asks for the watchers of any object in the pool and namespace of `io`:
    /// `librados::ObjectReadOperation::list_watchers`, which librados has in C++ only. It sends the question to the
    /// object's primary OSD and waits for no answer; `completion` completes with that, as with `rados_aio_stat`: 0, or
    /// a negative errno (`-ENOENT` for an object that does not exist).
    ///
    /// It returns 0 and sets `out`, or a negative errno: then there is nothing to wait for. `-ENOSYS` is a librados,
    /// the one that the program runs with, that has no such function; all from 15.2 to 20.2 have it.
    ///
    /// # Safety
    ///
    /// `io` is a valid I/O context and `completion` a completion without another use, both until it has completed;
    /// `object` is a C string, and `out` can be written.
    pub fn ceph_sys_aio_list_watchers(
        io: rados_ioctx_t,
        object: *const c_char,
        completion: rados_completion_t,
        out: *mut *mut ceph_sys_watchers,
    ) -> c_int;

    /// Takes a watcher out of the list, if there is one.
    ///
    /// # Safety
    ///
    /// `watchers` came from [`ceph_sys_aio_list_watchers`], whose completion has completed; `out` can be written.
    pub fn ceph_sys_watchers_pop(watchers: *mut ceph_sys_watchers, out: *mut obj_watch_t) -> bool;

    /// Frees the list. Null is allowed.
    ///
    /// # Safety
    ///
    /// `watchers` came from [`ceph_sys_aio_list_watchers`], whose completion has completed, and is not used again.
    pub fn ceph_sys_watchers_free(watchers: *mut ceph_sys_watchers);
}
