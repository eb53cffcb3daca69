//! The declarations of `list_watchers.cpp`.

use core::ffi::{c_char, c_int};

use crate::{obj_watch_t, rados_ioctx_t};

unsafe extern "C" {
    /// The watchers of any object in the pool and namespace of `io`: `librados::IoCtx::list_watchers`, which librados
    /// has in C++ only. The call asks the object's primary OSD, and waits for its answer as `rados_stat` does.
    ///
    /// On success it returns 0 and sets `out` and `count`: an array for [`ceph_sys_free_watchers`], or null and 0 when
    /// nobody watches the object. Else it returns a negative errno and leaves both as they were: `-ENOENT` for an
    /// object that does not exist, `-ENOSYS` when the librados that the program runs with has no such function (all
    /// from 14.2 to 20.2 have it).
    ///
    /// # Safety
    ///
    /// `io` is a valid I/O context, `object` a C string, and `out` and `count` can be written.
    pub fn ceph_sys_list_watchers(
        io: rados_ioctx_t,
        object: *const c_char,
        out: *mut *mut obj_watch_t,
        count: *mut usize,
    ) -> c_int;

    /// Frees what [`ceph_sys_list_watchers`] gave. Null is allowed.
    ///
    /// # Safety
    ///
    /// `watchers` came from [`ceph_sys_list_watchers`], and is not used again.
    pub fn ceph_sys_free_watchers(watchers: *mut obj_watch_t);
}
