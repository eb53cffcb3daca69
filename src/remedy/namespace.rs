//! In the mount namespace and below the root of another process.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::thread::LinkNameSpaceType;

use super::sys;
use crate::holder::Mount;

/// Moves the calling thread to where `mount` is, so that its path means there what it means to its process. The thread
/// is of no use for anything else afterwards, and neither are the threads that it starts.
///
/// # Errors
///
/// The process is gone, or in another namespace by now (NotFound); setns(2) and chroot(2) need CAP_SYS_ADMIN and
/// CAP_SYS_CHROOT.
pub(super) fn enter(mount: &Mount) -> io::Result<()> {
    let pid = mount.process.pid;
    let task = match mount.process.tid {
        Some(tid) => format!("/proc/{pid}/task/{tid}"),
        None => format!("/proc/{pid}"),
    };
    let open = |file: &str, flags| rustix::fs::open(format!("{task}/{file}"), flags | OFlags::CLOEXEC, Mode::empty());
    let namespace = open("ns/mnt", OFlags::RDONLY)?;
    // The process can have moved on, or be another one.
    if rustix::fs::fstat(&namespace)?.st_ino != mount.namespace {
        return Err(io::ErrorKind::NotFound.into());
    }
    let root = open("root", OFlags::PATH | OFlags::DIRECTORY)?;
    sys::unshare_directories()?;
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
    rustix::process::fchdir(root)?;
    Ok(rustix::process::chroot(".")?)
}
