//! An operation of an object that is under way while its caller does something else, and that can be withdrawn.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use ceph_sys::rados_completion_t;

use super::io::IoHandle;
use super::{Errno, check};

/// `rados_completion_t`, released on every way out, and the context in which it is used.
#[derive(Debug)]
pub(crate) struct Operation {
    completion: rados_completion_t,
    io: Arc<IoHandle>,
}

// SAFETY: librados.h has completions made by one thread and completed by another, and `AioCompletionImpl` guards its
// state by a lock.
unsafe impl Send for Operation {}
// SAFETY: as above.
unsafe impl Sync for Operation {}

impl Operation {
    pub(super) fn new(io: &Arc<IoHandle>) -> Result<Self, Errno> {
        let mut completion = ptr::null_mut();
        // SAFETY: no callback, so no argument for it; it sets a completion that is ours.
        check(unsafe { ceph_sys::rados_aio_create_completion2(ptr::null_mut(), None, &mut completion) })?;
        Ok(Self { completion, io: Arc::clone(io) })
    }

    /// What to hand to the one C function that starts it.
    pub(super) fn completion(&self) -> rados_completion_t {
        self.completion
    }

    /// Withdraws it, if it is under way. It then ends at once with `ECANCELED`, whether the OSD answers or not, and
    /// librados lets go of the memory that it was given (`Objecter::op_cancel`).
    pub(crate) fn cancel(&self) {
        // SAFETY: the context, and a completion that was used with it.
        unsafe { ceph_sys::rados_aio_cancel(self.io.as_raw(), self.completion) };
    }

    /// Hands it to `bind`, which may have it withdrawn, and waits until it has ended, on every way out: from then on C
    /// does not write to the memory that it was given.
    pub(super) fn finish(self, bind: impl FnOnce(&Arc<Self>)) -> Result<c_int, Errno> {
        struct UnderWay(Arc<Operation>);
        impl Drop for UnderWay {
            fn drop(&mut self) {
                self.0.settle();
            }
        }
        let under_way = UnderWay(Arc::new(self));
        bind(&under_way.0);
        under_way.0.wait()
    }

    pub(super) fn wait(&self) -> Result<c_int, Errno> {
        // SAFETY: a completion that is alive and in use.
        unsafe { ceph_sys::rados_aio_wait_for_complete(self.completion) };
        // SAFETY: as above.
        check(unsafe { ceph_sys::rados_aio_get_return_value(self.completion) })
    }

    /// Withdraws it unless it has ended, and waits until it has.
    pub(super) fn settle(&self) {
        // SAFETY: a completion that is alive.
        if unsafe { ceph_sys::rados_aio_is_complete(self.completion) } == 0 {
            self.cancel();
            let _ = self.wait();
        }
    }

    /// Whether this process is a fork of the one that made it, and C must not be asked.
    pub(super) fn is_inherited(&self) -> bool {
        self.io.cluster().is_inherited()
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.is_inherited() {
            return;
        }
        // SAFETY: made by `rados_aio_create_completion2`, released once; librados counts its own reference.
        unsafe { ceph_sys::rados_aio_release(self.completion) };
    }
}
