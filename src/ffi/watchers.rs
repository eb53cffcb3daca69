//! The watchers of an object, asked for without waiting: many questions can be under way at once.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use super::io::{IoHandle, Watch};
use super::{Errno, c_string, check};

/// A question that an OSD will answer. Dropped before that, it is withdrawn.
#[derive(Debug)]
pub(crate) struct WatchersRequest {
    completion: Completion,
    /// Filled by librados until the completion has completed.
    watchers: *mut ceph_sys::ceph_sys_watchers,
    io: Arc<IoHandle>,
}

// SAFETY: any thread may use a completion (librados.h), and nobody else has the list once it has completed.
unsafe impl Send for WatchersRequest {}

/// `rados_completion_t`, released on every way out.
#[derive(Debug)]
struct Completion(ceph_sys::rados_completion_t);

impl IoHandle {
    /// Asks for the watchers of an object, as the OSD lists them.
    pub(crate) fn ask_watchers(self: &Arc<Self>, object: &str) -> Result<WatchersRequest, Errno> {
        let object = c_string(object)?;
        let completion = Completion::new()?;
        let mut watchers = ptr::null_mut();
        // SAFETY: the context and the completion live, and only this call has used the completion; a NUL-terminated
        // name, which is copied; the list is set on success.
        check(unsafe {
            ceph_sys::ceph_sys_aio_list_watchers(self.as_raw(), object.as_ptr(), completion.0, &mut watchers)
        })?;
        Ok(WatchersRequest { completion, watchers, io: Arc::clone(self) })
    }
}

impl WatchersRequest {
    /// Waits for the answer.
    pub(crate) fn wait(self) -> Result<Vec<Watch>, Errno> {
        self.completion.wait()?;
        let mut list = Vec::new();
        let mut watch = MaybeUninit::uninit();
        // SAFETY: the completion has completed, so the list is ours, and there is a place to write to.
        while unsafe { ceph_sys::ceph_sys_watchers_pop(self.watchers, watch.as_mut_ptr()) } {
            // SAFETY: the call has written it.
            let ceph_sys::obj_watch_t { addr, watcher_id, cookie, timeout_seconds } = unsafe { watch.assume_init() };
            let address: Vec<u8> = addr.into_iter().map(c_char::cast_unsigned).take_while(|c| *c != 0).collect();
            list.push(Watch {
                address: String::from_utf8_lossy(&address).into_owned(),
                client: watcher_id.cast_unsigned(),
                cookie,
                timeout_seconds: Some(timeout_seconds),
            });
        }
        Ok(list)
    }
}

impl Drop for WatchersRequest {
    fn drop(&mut self) {
        if self.io.cluster().is_inherited() {
            return;
        }
        if !self.completion.is_complete() {
            // SAFETY: the context and a completion that was used with it. It completes with -ECANCELED, or with the
            // answer that came just now.
            unsafe { ceph_sys::rados_aio_cancel(self.io.as_raw(), self.completion.0) };
            let _ = self.completion.wait();
        }
        // SAFETY: the completion has completed; freed once.
        unsafe { ceph_sys::ceph_sys_watchers_free(self.watchers) };
    }
}

impl Completion {
    fn new() -> Result<Self, Errno> {
        let mut raw = ptr::null_mut();
        // SAFETY: no callbacks, so no argument for them; it sets a completion that is ours.
        check(unsafe { ceph_sys::rados_aio_create_completion2(ptr::null_mut(), None, &mut raw) })?;
        Ok(Self(raw))
    }

    fn is_complete(&self) -> bool {
        // SAFETY: a completion that is alive.
        unsafe { ceph_sys::rados_aio_is_complete(self.0) != 0 }
    }

    fn wait(&self) -> Result<(), Errno> {
        // SAFETY: a completion that is alive and in use.
        unsafe { ceph_sys::rados_aio_wait_for_complete(self.0) };
        // SAFETY: as above.
        check(unsafe { ceph_sys::rados_aio_get_return_value(self.0) }).map(drop)
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        // SAFETY: made by `rados_aio_create_completion2`, released once; librados counts its own reference.
        unsafe { ceph_sys::rados_aio_release(self.0) };
    }
}
