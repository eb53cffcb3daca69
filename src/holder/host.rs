//! Where the kernel's files are read from, and the few ways of reading them.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};

use crate::DeviceNumber;

/// What the kernel writes of a file of proc at a time, at most and about.
const PAGE: usize = 4096;

/// The roots of proc and sysfs. `proc` is opened once: every file of a process is then a short path below it.
#[derive(Debug)]
pub(super) struct Host {
    proc: OwnedFd,
    sys: PathBuf,
    /// Whether the numbers in `proc` are those that this program's system calls take.
    pub(super) pids_are_ours: bool,
}

/// What `statx(2)` says of a file, without asking a file server and without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStatus {
    /// The device that the file is on.
    pub(super) on: DeviceNumber,
    pub(super) inode: u64,
    /// The mount by which it was opened (Linux 5.8).
    pub(crate) mount: Option<u64>,
    /// The device that the file is, if it is a block device.
    pub(crate) block_device: Option<DeviceNumber>,
    pub(super) links: u32,
}

impl Host {
    pub(super) fn open(proc: &Path, sys: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open(proc, flags, Mode::empty())?;
        let self_link = link_at(&proc, "self").ok();
        let pids_are_ours = self_link.is_some_and(|link| link == Path::new(&std::process::id().to_string()));
        Ok(Self { proc, sys: sys.to_owned(), pids_are_ours })
    }

    /// Every process, by number, in ascending order.
    pub(super) fn processes(&self) -> io::Result<Vec<i32>> {
        numbered(&self.directory(".")?)
    }

    /// A directory below proc.
    pub(super) fn directory(&self, path: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.proc, path, flags, Mode::empty())?)
    }

    /// A file below proc, whole.
    pub(super) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = rustix::fs::openat(&self.proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        // Not `Read::read_to_end`, which first asks for the size of what has none.
        let mut bytes = Vec::with_capacity(PAGE);
        while rustix::io::read(&file, spare_capacity(&mut bytes))? > 0 {
            if bytes.capacity() - bytes.len() < PAGE {
                bytes.reserve(bytes.capacity().max(PAGE));
            }
        }
        Ok(bytes)
    }

    /// Where a link below proc points to, as text: nothing is followed.
    pub(super) fn link(&self, path: &str) -> io::Result<PathBuf> {
        link_at(&self.proc, path)
    }

    /// The number in a namespace's link, such as 4026531841 in `mnt:[4026531841]`.
    pub(super) fn namespace(&self, path: &str) -> io::Result<u64> {
        let target = self.link(path)?;
        namespace_number(&target).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    /// The file that a path below proc leads to.
    pub(super) fn status(&self, path: impl rustix::path::Arg) -> io::Result<FileStatus> {
        status_at(&self.proc, path)
    }

    /// A path below sysfs.
    pub(super) fn sys(&self, path: impl AsRef<Path>) -> PathBuf {
        self.sys.join(path)
    }

    /// A small file below sysfs, without its newline; `None` where there is none.
    pub(super) fn attribute(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let mut bytes = std::fs::read(self.sys(path)).ok()?;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        Some(bytes)
    }

    /// As [`Self::attribute`], as text.
    pub(super) fn attribute_text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.attribute(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The names in a directory below sysfs, sorted; none where there is no such directory.
    pub(super) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.sys(path)) else { return Vec::new() };
        let mut names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// `status` of a file below an open directory. AT_STATX_DONT_SYNC: a file server that does not answer is not asked.
pub(crate) fn status_at(directory: impl AsFd, path: impl rustix::path::Arg) -> io::Result<FileStatus> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK | StatxFlags::MNT_ID;
    let statx = rustix::fs::statx(directory, path, AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT, wanted)?;
    let is_block = FileType::from_raw_mode(statx.stx_mode.into()) == FileType::BlockDevice;
    Ok(FileStatus {
        on: DeviceNumber::new(statx.stx_dev_major, statx.stx_dev_minor),
        inode: statx.stx_ino,
        mount: (statx.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(statx.stx_mnt_id),
        block_device: is_block.then(|| DeviceNumber::new(statx.stx_rdev_major, statx.stx_rdev_minor)),
        links: statx.stx_nlink,
    })
}

/// Where a link in an open directory points to, as text.
pub(super) fn link_at(directory: impl AsFd, path: impl rustix::path::Arg) -> io::Result<PathBuf> {
    Ok(path_of(rustix::fs::readlinkat(directory, path, Vec::new())?.into_bytes()))
}

/// The entries of a directory whose names are numbers, in ascending order.
pub(super) fn numbered(directory: impl AsFd) -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        if let Some(number) = entry?.file_name().to_str().ok().and_then(|name| name.parse().ok()) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A path as the kernel wrote it.
pub(super) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// 4026531841 of `mnt:[4026531841]`.
pub(super) fn namespace_number(link: &Path) -> Option<u64> {
    link.to_str()?.split_once(":[")?.1.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_namespace_is_taken_from_its_link() {
        assert_eq!(namespace_number(Path::new("mnt:[4026531841]")), Some(4_026_531_841));
        for other in ["mnt:[]", "mnt:[1", "/mnt", "socket:[-3]"] {
            assert_eq!(namespace_number(Path::new(other)), None, "{other}");
        }
    }
}
