//! Data: read, write, flush.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Image;
use super::lock::LOCK_HINT;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::Errno;

impl Image {
    /// Reads `length` bytes from `offset` (in bytes); fewer where the image ends.
    ///
    /// # Errors
    ///
    /// `InvalidInput` from the end of the image on; otherwise as every call.
    #[doc(alias = "rbd_read")]
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.call("read image", move |image| image.read(offset, length))
    }

    /// Writes at `offset` (in bytes). The data may be in librbd's cache until [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// `ReadOnly`, also where another client keeps the image's lock; `InvalidInput` where it goes beyond the end of the
    /// image: what is before the end may be written then. `TimedOut`, also where a lock was taken by hand: the write
    /// may still take effect, or, on a connection with an [OSD time-out](crate::rados::ClusterBuilder::osd_timeout), be
    /// lost. `Unsupported` on such a connection where librbd's cache was on when the image was opened: a write would be
    /// lost without a word.
    #[doc(alias = "rbd_write")]
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        if self.write_untold {
            return Err(self.error(ErrorKind::Unsupported, "write image").with_hint(CACHE_HINT));
        }
        let (data, lost) = (data.to_vec(), std::sync::Arc::clone(&self.write_lost));
        let written = self.call("write image", move |image| {
            let written = image.write(offset, &data);
            if written == Err(Errno::TIMED_OUT) {
                lost.store(true, Ordering::Relaxed);
            }
            written
        });
        written.map_err(|error| if error.kind() == ErrorKind::TimedOut { error.with_hint(LOCK_HINT) } else { error })
    }

    /// Waits until what was written is safe on the OSDs.
    ///
    /// # Errors
    ///
    /// `TimedOut` once a write on this image was given up (see
    /// [`ClusterBuilder::osd_timeout`](crate::rados::ClusterBuilder::osd_timeout)): librbd would report success here
    /// although that data is lost.
    #[doc(alias = "rbd_flush")]
    pub fn flush(&self) -> Result<()> {
        const FLUSH: &str = "flush image";
        refuse_after_lost_write(&self.write_lost, FLUSH, &self.label)?;
        let lost = std::sync::Arc::clone(&self.write_lost);
        self.call(FLUSH, move |image| {
            let flushed = image.flush();
            if flushed == Err(Errno::TIMED_OUT) {
                lost.store(true, Ordering::Relaxed);
            }
            flushed
        })?;
        refuse_after_lost_write(&self.write_lost, FLUSH, &self.label)
    }
}

const CACHE_HINT: &str = "the connection has an OSD time-out, with which librbd's cache can lose a write and call that a \
                          success; turn rbd_cache off for the image and its pool (`rbd config`), or set no time-out";

/// With an OSD time-out a write fails with `ETIMEDOUT` and the flush after it says all is well.
pub(super) fn refuse_after_lost_write(lost: &AtomicBool, operation: &'static str, image: &str) -> Result<()> {
    if !lost.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::TimedOut, operation)
        .with_object(image)
        .with_hint("an earlier write on it timed out and its data may be lost"))
}
