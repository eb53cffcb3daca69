//! A directory of attributes in sysfs.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::str::FromStr;

use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{read, retry_on_intr};
use zeroize::Zeroize;

/// A directory of attributes, held open: the kernel looks up the way to it once, and all that is read belongs to one
/// device, even if its id is used again meanwhile.
pub(super) struct Attributes {
    directory: OwnedFd,
    /// What was read last.
    value: Vec<u8>,
}

/// sysfs gives out a page at most, in one read if there is room for it.
const ROOM: usize = 2 * 4096;

impl Attributes {
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let directory = openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { directory, value: Vec::with_capacity(ROOM) })
    }

    /// An attribute's value: one newline at its end is not part of it, blanks are.
    pub(super) fn required(&mut self, attribute: &str) -> io::Result<&[u8]> {
        let file = openat(&self.directory, attribute, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        self.value.clear();
        loop {
            self.value.reserve(ROOM);
            let room = self.value.capacity() - self.value.len();
            let length = retry_on_intr(|| read(&file, spare_capacity(&mut self.value)))?;
            if length < room {
                break;
            }
        }
        Ok(self.value.strip_suffix(b"\n").unwrap_or(&self.value))
    }

    /// `None` where this kernel has no such attribute.
    pub(super) fn optional(&mut self, attribute: &str) -> io::Result<Option<&[u8]>> {
        match self.required(attribute) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn text(&mut self, attribute: &str) -> io::Result<Option<String>> {
        Ok(self.optional(attribute)?.map(|value| String::from_utf8_lossy(value).into_owned()))
    }

    /// What cannot be read as a `T` is taken for what this kernel does not show.
    pub(super) fn parsed<T: FromStr>(&mut self, attribute: &str) -> io::Result<Option<T>> {
        Ok(self.optional(attribute)?.and_then(|value| str::from_utf8(value).ok()?.parse().ok()))
    }

    /// Forgets what was read last, which may have been a secret.
    pub(super) fn wipe(&mut self) {
        // The slice: the room behind it is as it was.
        self.value.as_mut_slice().zeroize();
    }
}
