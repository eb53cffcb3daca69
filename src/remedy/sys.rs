//! The system calls that neither std nor rustix has as safe functions, and the only unsafe code of this part.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// unshare(2) with CLONE_FS: the calling thread gets a root and a working directory of its own.
pub(super) fn unshare_directories() -> io::Result<()> {
    // SAFETY: unshare(2) takes flags and no memory. CLONE_FS changes nothing but whose root and working directory a
    // chroot or chdir of this thread moves.
    result(unsafe { libc::unshare(libc::CLONE_FS) })
}

/// swapoff(2).
pub(super) fn swapoff(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: swapoff(2) reads the terminated string, which lives until it returns.
    result(unsafe { libc::swapoff(path.as_ptr()) })
}

/// LOOP_CLR_FD (`loop(4)`): takes a loop device's file away; with other users, when the last of them closes it.
pub(super) fn clear_loop(device: BorrowedFd<'_>) -> io::Result<()> {
    /// linux/loop.h
    const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
    // SAFETY: LOOP_CLR_FD takes no argument; the descriptor is open for as long as it is borrowed.
    result(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD, 0) })
}

/// By which of its names a device-mapper device is meant.
pub(super) enum DmName<'a> {
    Uuid(&'a str),
    Name(&'a str),
}

/// `struct dm_ioctl` of linux/dm-ioctl.h.
#[repr(C)]
struct DmIoctl {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

const DM_IOCTL_SIZE: u32 = 312;
const _: () = assert!(size_of::<DmIoctl>() == DM_IOCTL_SIZE as usize);

/// DM_DEV_REMOVE (linux/dm-ioctl.h): removes a device that nobody has open. `control` is `/dev/mapper/control`.
pub(super) fn remove_dm(control: BorrowedFd<'_>, which: DmName<'_>) -> io::Result<()> {
    /// `_IOWR(0xfd, 4, struct dm_ioctl)`
    const DM_DEV_REMOVE: libc::Ioctl = (3 << 30 | DM_IOCTL_SIZE << 16 | 0xfd << 8 | 4) as libc::Ioctl;
    let mut request = DmIoctl {
        // The oldest interface of this major version has the call.
        version: [4, 0, 0],
        data_size: DM_IOCTL_SIZE,
        data_start: DM_IOCTL_SIZE,
        target_count: 0,
        open_count: 0,
        flags: 0,
        event_nr: 0,
        padding: 0,
        dev: 0,
        name: [0; 128],
        uuid: [0; 129],
        data: [0; 7],
    };
    let (field, text) = match which {
        DmName::Uuid(uuid) => (&mut request.uuid[..], uuid),
        DmName::Name(name) => (&mut request.name[..], name),
    };
    // A byte is left for the NUL.
    if text.len() >= field.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    field[..text.len()].copy_from_slice(text.as_bytes());
    // SAFETY: the ioctl reads and writes `data_size` bytes at the pointer, which is the size of the structure; it lives
    // until the call returns, and the kernel keeps no pointer. The descriptor is open for as long as it is borrowed.
    result(unsafe { libc::ioctl(control.as_raw_fd(), DM_DEV_REMOVE, &raw mut request) })
}

fn result(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
