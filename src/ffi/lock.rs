//! Locks on an object, as `cls_lock` keeps them: the one on an image's header.

use std::ffi::{CStr, c_int};

use super::image::ImageHandle;
use super::io::IoHandle;
use super::{Errno, c_string, check};

/// The lock on an image's header (`RBD_LOCK_NAME`): that of the exclusive-lock feature, or one taken by hand.
pub(crate) const LOCK_OF_IMAGE: &CStr = c"rbd_lock";

/// A lock as cls_lock keeps it. The cookie is verbatim: those of automatic locks hold a space.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LockerText {
    pub(crate) client: String,
    pub(crate) cookie: String,
    pub(crate) address: String,
}

impl IoHandle {
    /// Whether a lock on an object is exclusive, and all its holders, asked of its OSD. (`rbd_list_lockers` tells who
    /// held it when the image was opened or its header last read again.)
    pub(crate) fn lockers(&self, object: &str, lock: &CStr) -> Result<(bool, Vec<LockerText>), Errno> {
        let object = c_string(object)?;
        let mut sizes = [256_usize; 4];
        loop {
            let mut buffers = sizes.map(|size| vec![0_u8; size]);
            let [tag, clients, cookies, addresses] = buffers.each_mut().map(|buffer| buffer.as_mut_ptr().cast());
            let [tag_size, clients_size, cookies_size, addresses_size] = &mut sizes;
            let mut exclusive = 0;
            // SAFETY: two NUL-terminated names, and four buffers with their sizes, which the call sets to what it
            // needs.
            let found = check(unsafe {
                ceph_sys::rados_list_lockers(
                    self.as_raw(),
                    object.as_ptr(),
                    lock.as_ptr(),
                    &mut exclusive,
                    tag,
                    tag_size,
                    clients,
                    clients_size,
                    cookies,
                    cookies_size,
                    addresses,
                    addresses_size,
                )
            });
            let found = match found {
                Err(Errno::RANGE) => {
                    // At least doubled, so that the loop ends however odd the sizes are that it was told.
                    for (size, buffer) in sizes.iter_mut().zip(&buffers) {
                        *size = (*size).max(buffer.len() * 2);
                    }
                    if sizes.iter().any(|size| *size > super::LARGEST) {
                        return Err(Errno::RANGE);
                    }
                    continue;
                }
                found => usize::try_from(found?).unwrap_or(0),
            };
            // Each buffer is that many strings, each ended by a NUL.
            let [_, clients, cookies, addresses] = &buffers;
            let strings = |buffer: &[u8]| -> Vec<String> {
                let strings = buffer.split(|byte| *byte == 0).take(found);
                strings.map(|string| String::from_utf8_lossy(string).into_owned()).collect()
            };
            let lockers = strings(clients).into_iter().zip(strings(cookies)).zip(strings(addresses));
            let lockers = lockers.map(|((client, cookie), address)| LockerText { client, cookie, address });
            return Ok((exclusive != 0, lockers.collect()));
        }
    }
}

impl IoHandle {
    /// Breaks a lock on an object, and nothing else: its holder is not put on the blocklist.
    pub(crate) fn break_lock(&self, object: &str, lock: &CStr, client: &str, cookie: &str) -> Result<(), Errno> {
        let (object, client, cookie) = (c_string(object)?, c_string(client)?, c_string(cookie)?);
        let (object, client, cookie) = (object.as_ptr(), client.as_ptr(), cookie.as_ptr());
        // SAFETY: a context that is alive and four NUL-terminated strings, which the call does not keep.
        check(unsafe { ceph_sys::rados_break_lock(self.as_raw(), object, lock.as_ptr(), client, cookie) }).map(drop)
    }
}

impl ImageHandle {
    pub(crate) fn is_lock_owner(&self) -> Result<bool, Errno> {
        let mut is_owner: c_int = 0;
        // SAFETY: an open image and a place to write to.
        check(unsafe { ceph_sys::rbd_is_exclusive_lock_owner(self.raw(), &mut is_owner) })?;
        Ok(is_owner != 0)
    }

    /// Breaks a lock; librbd blocklists its owner first (`rbd_blocklist_on_break_lock`, on by default).
    pub(crate) fn break_lock(&self, client: &str, cookie: &str) -> Result<(), Errno> {
        let (client, cookie) = (c_string(client)?, c_string(cookie)?);
        // SAFETY: an open image and two NUL-terminated strings.
        check(unsafe { ceph_sys::rbd_break_lock(self.raw(), client.as_ptr(), cookie.as_ptr()) }).map(drop)
    }
}
