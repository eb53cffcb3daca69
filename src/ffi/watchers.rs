//! The watchers of an object, asked for without waiting: many questions can be under way at once.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use super::io::{IoHandle, Watch};
use super::operation::Operation;
use super::{Errno, c_string, check};

/// A question that an OSD will answer. Dropped before that, it is withdrawn.
#[derive(Debug)]
pub(crate) struct WatchersRequest {
    operation: Arc<Operation>,
    /// Filled by librados until the operation has ended.
    watchers: *mut ceph_sys::ceph_sys_watchers,
}

// SAFETY: nobody else has the list once the operation has ended.
unsafe impl Send for WatchersRequest {}

impl IoHandle {
    /// Asks for the watchers of an object, as the OSD lists them.
    pub(crate) fn ask_watchers(self: &Arc<Self>, object: &str) -> Result<WatchersRequest, Errno> {
        let object = c_string(object)?;
        let operation = Operation::new(self)?;
        let mut watchers = ptr::null_mut();
        // SAFETY: the context and the completion live, and only this call has used the completion; a NUL-terminated
        // name, which is copied; the list is set on success.
        check(unsafe {
            ceph_sys::ceph_sys_aio_list_watchers(self.as_raw(), object.as_ptr(), operation.completion(), &mut watchers)
        })?;
        Ok(WatchersRequest { operation: Arc::new(operation), watchers })
    }
}

impl WatchersRequest {
    /// Hands the operation to `bind`, which may have it withdrawn, and waits for the answer.
    pub(crate) fn wait(self, bind: impl FnOnce(&Arc<Operation>)) -> Result<Vec<Watch>, Errno> {
        bind(&self.operation);
        self.operation.wait()?;
        let mut list = Vec::new();
        let mut watch = MaybeUninit::uninit();
        // SAFETY: the operation has ended, so the list is ours, and there is a place to write to.
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
        if self.operation.is_inherited() {
            return;
        }
        self.operation.settle();
        // SAFETY: the operation has ended; freed once.
        unsafe { ceph_sys::ceph_sys_watchers_free(self.watchers) };
    }
}
