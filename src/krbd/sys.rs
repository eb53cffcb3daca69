//! The system calls that std does not have, and the only unsafe code of this part.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_long};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::cephx_key::CephxKey;
use crate::device_number::DeviceNumber;
use crate::error::{Error, Result};
use crate::thread;

/// linux/keyctl.h: the keyring of the calling thread alone, which goes with the thread.
const KEY_SPEC_THREAD_KEYRING: c_long = -1;

/// add_key(2): puts a cephx key into the calling thread's keyring, under `description`.
pub(super) fn add_ceph_key(description: &str, key: &CephxKey) -> io::Result<()> {
    let description = CString::new(description)?;
    let payload = key.as_encoded();
    // SAFETY: add_key(2) reads the two terminated strings and `payload.len()` bytes of the payload, all of which live
    // until it returns, and keeps none of the pointers.
    let serial = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            c"ceph".as_ptr(),
            description.as_ptr(),
            payload.as_ptr(),
            payload.len(),
            KEY_SPEC_THREAD_KEYRING,
        )
    };
    if serial < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// mknod(2): a block device's node, mode 0600.
pub(super) fn make_block_node(path: &Path, number: DeviceNumber) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: mknod(2) reads the terminated string, which lives until it returns.
    let result =
        unsafe { libc::mknod(path.as_ptr(), libc::S_IFBLK | 0o600, libc::makedev(number.major(), number.minor())) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// getrandom(2).
pub(super) fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: getrandom(2) writes at most the given number of bytes into the array, which is as long. Up to 256 bytes
    // are never given in part.
    let length = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if length < 0 {
        return Err(Error::from_io("make a mark for the mapping", io::Error::last_os_error()));
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// Makes this process one of its own, under `name`: no signal stops it any more but SIGKILL, no terminal has it in its
/// session, and of the files that it inherited it keeps the first three. The first must be a socket whose other end was
/// made with the same rights: a program with more rights than its user serves nobody who runs it.
pub(super) fn leave_parent(name: &CStr) -> io::Result<()> {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: getsockopt(2) writes at most `length` bytes, the size of the struct that SO_PEERCRED gives, into it.
    let result =
        unsafe { libc::getsockopt(0, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut length) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: these take no memory and cannot fail.
    let (uid, gid, has_gained) = unsafe { (libc::geteuid(), libc::getegid(), libc::getauxval(libc::AT_SECURE) != 0) };
    // The other end's capabilities are not known: whoever is not root must not have gained any from the program's file.
    if (peer.uid, peer.gid) != (uid, gid) || uid != 0 && has_gained {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    thread::block_signals();
    // SAFETY: setsid(2) takes nothing; it fails for a leader of a process group only, which a child just started is
    // not. PR_SET_NAME reads the terminated string. close_range(2) closes files that nobody in this program has opened:
    // it has only begun.
    let closed = unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32)
    };
    if closed == 0 { Ok(()) } else { close_each() }
}

/// Before Linux 5.9, or where a filter does not know close_range(2).
fn close_each() -> io::Result<()> {
    let open =
        std::fs::read_dir("/proc/self/fd")?.map(|file| Ok(file?.file_name().to_str().and_then(|n| n.parse().ok())));
    let open: Vec<Option<i32>> = open.collect::<io::Result<_>>()?;
    for file in open.into_iter().flatten().filter(|&file| file > 2) {
        // SAFETY: close(2) takes a number. As above, and this thread is the only one; the directory is closed already.
        unsafe { libc::close(file) };
    }
    Ok(())
}
