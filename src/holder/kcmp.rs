//! Whether two threads share what they have open.

#![allow(unsafe_code)]

use libc::c_long;

/// What two threads can share (`linux/kcmp.h`).
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(super) enum Shared {
    /// KCMP_FILES: the table of file descriptors.
    Files = 2,
    /// KCMP_FS: the working and root directories.
    Directories = 3,
}

/// True where the kernel says that both threads share it; false where they do not, or where it does not say.
#[doc(alias = "kcmp")]
pub(super) fn share(one: i32, other: i32, what: Shared) -> bool {
    let (one, other, what) = (c_long::from(one), c_long::from(other), what as c_long);
    let unused: c_long = 0;
    // SAFETY: kcmp(2) with KCMP_FILES or KCMP_FS takes five integers, reads no memory of ours and changes nothing.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, what, unused, unused) };
    order == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_their_descriptors_and_strangers_do_not() {
        let pid = i32::try_from(std::process::id()).unwrap();
        // A test runs in a thread of its own.
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        let own = link.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert!(share(pid, own, Shared::Files));
        assert!(share(pid, own, Shared::Directories));
        assert!(!share(pid, i32::MAX, Shared::Files));
    }
}
