//! Unmounting, and swap space: what is named by a path, which means what it means in one mount namespace only.

use std::io;
use std::thread;

use rustix::fs::CWD;
use rustix::mount::UnmountFlags;

use super::namespace;
use super::outcome::Outcome;
use super::sys;
use crate::DeviceNumber;
use crate::error::{Error, ErrorKind, Result};
use crate::holder::{Mount, Now, Shown, Swap, mount_now, status_at, swap_now};
use crate::thread::without_signals;

/// Unmounts in the mount's own namespace. To be called on a thread that nobody needs afterwards.
pub(super) fn unmount(mount: &Mount, flags: UnmountFlags) -> Result<Outcome> {
    const OPERATION: &str = "unmount";
    let failed = |error| Error::from_io(OPERATION, error).with_object(Shown(&mount.mount_point));
    match mount_now(mount).map_err(failed)? {
        Now::Same => {}
        Now::Gone => return Ok(Outcome::Gone),
        Now::Changed => return Ok(Outcome::Changed),
    }
    namespace::enter(mount).map_err(failed)?;
    // Something may be mounted over it, or over what its path leads through.
    if let Some(id) = status_at(CWD, &mount.mount_point).map_err(failed)?.mount
        && id != mount.id
    {
        return Err(failed(io::Error::from_raw_os_error(libc::EBUSY)).with_hint("another mount covers it"));
    }
    match rustix::mount::unmount(&mount.mount_point, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(Outcome::Done),
        // It is there and is a mount point: what else EINVAL means is MNT_LOCKED (fs/namespace.c).
        Err(rustix::io::Errno::INVAL) => Err(failed(io::Error::from_raw_os_error(libc::EINVAL))
            .with_hint("a user namespace has it locked: it goes when the last process of its mount namespace ends")),
        Err(error) => Err(failed(error.into())),
    }
}

/// Ends swapping to a device, or to a file on it. The kernel does not say in which namespace the path is meant: it is
/// tried in this one, then where the file system is mounted. Each try takes a thread that nobody needs afterwards.
pub(super) fn swapoff(swap: &Swap, on: DeviceNumber, mounts: &[Mount]) -> Result<Outcome> {
    let failed = |error| Error::from_io("end swapping", error).with_object(Shown(&swap.path));
    if swap_now(swap).map_err(failed)? == Now::Gone {
        return Ok(Outcome::Gone);
    }
    let mut last = Error::new(ErrorKind::NotFound, "end swapping").with_object(Shown(&swap.path));
    let places = std::iter::once(None).chain(mounts.iter().map(Some));
    for place in places {
        match thread::scope(|scope| {
            let try_there = || swapoff_at(swap, on, mounts, place);
            let tried = without_signals(|| thread::Builder::new().spawn_scoped(scope, try_there))?;
            tried.join().unwrap_or(Ok(false))
        }) {
            Ok(true) => return Ok(Outcome::Done),
            Ok(false) => {}
            Err(error) => last = failed(error),
        }
    }
    Err(last)
}

/// False where the path is something else there.
fn swapoff_at(swap: &Swap, on: DeviceNumber, mounts: &[Mount], place: Option<&Mount>) -> io::Result<bool> {
    if let Some(mount) = place {
        namespace::enter(mount)?;
    }
    let status = status_at(CWD, &swap.path)?;
    let is_meant = match status.block_device {
        Some(number) => number == on,
        None => swap.is_file && status.mount.is_none_or(|id| mounts.iter().any(|mount| mount.id == id)),
    };
    if is_meant {
        sys::swapoff(&swap.path)?;
    }
    Ok(is_meant)
}
