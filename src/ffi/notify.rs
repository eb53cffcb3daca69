//! Notifying the watchers of an object.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::cluster::take;
use super::io::IoHandle;
use super::{Errno, c_string, check};

impl IoHandle {
    /// Sends `payload` to everybody who watches an object, and waits until each has acknowledged it or `timeout` is
    /// over, in seconds. The answer is the encoded reply, which says who did and who did not.
    pub(crate) fn notify(&self, object: &str, payload: &[u8], timeout: u32) -> Result<Vec<u8>, Errno> {
        let object = c_string(object)?;
        let length = c_int::try_from(payload.len()).map_err(|_| Errno::INVALID)?;
        let (mut reply, mut reply_length): (*mut c_char, usize) = (ptr::null_mut(), 0);
        // SAFETY: a context that is alive, a NUL-terminated name, `length` bytes that are copied, two places to write
        // to. librados takes the time-out in milliseconds and cuts it to seconds.
        let code = check(unsafe {
            ceph_sys::rados_notify2(
                self.as_raw(),
                object.as_ptr(),
                payload.as_ptr().cast(),
                length,
                u64::from(timeout) * 1000,
                &mut reply,
                &mut reply_length,
            )
        });
        // SAFETY: null or a buffer of that many bytes, which is the caller's, on failure too; freed once.
        let reply = unsafe { take(reply, reply_length) };
        match code {
            // Somebody did not acknowledge it: the reply says who. An OSD that does not answer gives this code without
            // a reply.
            Err(Errno::TIMED_OUT) if !reply.is_empty() => Ok(reply),
            code => code.map(|_| reply),
        }
    }
}
