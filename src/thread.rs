//! The library's own threads, and the host's signals.

#![allow(unsafe_code)]

/// Runs `start`, which starts a thread: one to which no signal is delivered. The host's handlers run on the host's
/// threads, and no call of ours is cut short by one, such as the kernel's wait for the cluster.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let _until_it_is_started = Restore(block_signals());
    start()
}

/// Keeps signals from the calling thread and those that it starts. Returns what was kept from it before.
pub(crate) fn block_signals() -> libc::sigset_t {
    let (mut all, mut before) = (std::mem::MaybeUninit::uninit(), std::mem::MaybeUninit::uninit());
    // SAFETY: sigfillset(3) initialises the set that pthread_sigmask(3) then reads, and that initialises the other with
    // the old mask. Neither can fail with these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

struct Restore(libc::sigset_t);

impl Drop for Restore {
    fn drop(&mut self) {
        // SAFETY: pthread_sigmask(3) reads the set, which is initialised; no old mask is asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SigBlk` of the calling thread.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap()
    }

    #[test]
    fn a_thread_that_is_started_has_all_signals_blocked_and_its_starter_what_it_had() {
        let before = blocked();
        let started = without_signals(|| std::thread::spawn(blocked));
        assert_eq!(blocked(), before);
        let started = started.join().unwrap();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGPIPE, libc::SIGCHLD, libc::SIGALRM] {
            assert_eq!(started >> (signal - 1) & 1, 1, "{signal}");
        }
    }
}
