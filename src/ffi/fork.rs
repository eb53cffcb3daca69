//! Telling a process from the one that it was forked from.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the first one that asked.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A number that is another in every process made by `fork` from one that had asked for it. Counting forks costs a
/// call nothing; asking for the process id would be a system call each time.
pub(crate) fn generation() -> u32 {
    static COUNTING: Once = Once::new();
    COUNTING.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which may be done in the child of a process with threads. Without
        // memory for the registration it is not called, and a child is not told from its parent.
        unsafe { libc::pthread_atfork(None, None, Some(count)) };
    });
    FORKS.load(Ordering::Relaxed)
}

unsafe extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_has_another_generation_and_its_parent_keeps_its_own() {
        let before = generation();
        // SAFETY: the child calls what is allowed after a fork, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(generation() == before)) };
        }
        let mut status = -1;
        // SAFETY: a child of ours and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(generation(), before);
    }
}
