//! Work that the kernel may hold longer than the caller waits.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::failure::Stage;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::thread::without_signals;

/// A map or an unmap whose deadline passed and that goes on: a thread of this process is in the kernel for it.
///
/// The thread does not hold up the caller, but it does hold up the end of the process: a thread that waits for the
/// cluster inside the kernel ends on SIGKILL while it maps, and not before the cluster answers while it unmaps.
///
/// Clones are handles on the same work.
pub struct Pending<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Running,
    Discarded,
    Done(Result<T>),
    Taken,
}

impl<T: Send + 'static> Pending<T> {
    /// Does `work` on a thread of its own. `accept` gets what came of it, `discard` if the caller no longer wants that:
    /// one of the two, whatever happens at the same time.
    pub(super) fn start<W>(
        name: &'static str,
        work: impl FnOnce() -> Result<W> + Send + 'static,
        accept: impl FnOnce(W) -> T + Send + 'static,
        discard: impl FnOnce(W) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let pending = Self(Arc::new(Shared { state: Mutex::new(State::Running), changed: Condvar::new() }));
        let shared = Arc::clone(&pending.0);
        let thread = move || {
            let result = caught(work);
            let mut state = shared.lock();
            if let State::Running = *state {
                *state = State::Done(result.map(accept));
            } else {
                drop(state);
                let undone = result.map_or(Ok(()), |value| caught(|| discard(value)));
                state = shared.lock();
                // What could not be undone is told to whoever asks.
                *state = undone.map_or_else(|error| State::Done(Err(error)), |()| State::Taken);
            }
            shared.changed.notify_all();
        };
        without_signals(|| std::thread::Builder::new().name(name.into()).spawn(thread))
            .map_err(|error| Error::from_io("start a thread", error).with_object(name).at(Stage::Preflight))
            .map_err(|error| error.with_hint("nothing was done; this process or its user has too many threads"))?;
        Ok(pending)
    }

    pub(super) fn wait_until(&self, deadline: Deadline) -> Option<Result<T>> {
        let mut state = self.0.lock();
        loop {
            match &*state {
                State::Done(_) => {}
                State::Taken => {
                    return Some(Err(Error::new(ErrorKind::Changed, "wait for the kernel")
                        .with_hint("the result was fetched before, or discarded")));
                }
                State::Running | State::Discarded => {
                    state = match deadline.left() {
                        None => self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                        Some(Duration::ZERO) => return None,
                        Some(left) => {
                            self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                        }
                    };
                    continue;
                }
            }
            if let State::Done(result) = std::mem::replace(&mut *state, State::Taken) {
                return Some(result);
            }
        }
    }

    /// Waits at most `deadline` for the end (`None`: as long as it takes); `None` is returned when it goes on still.
    ///
    /// The result is given once: after that, to any clone, it is an error of the kind `Changed`.
    pub fn wait(&self, deadline: Option<Duration>) -> Option<Result<T>> {
        self.wait_until(Deadline::after(deadline))
    }

    /// Whether the kernel is through with it.
    pub fn is_finished(&self) -> bool {
        matches!(*self.0.lock(), State::Done(_) | State::Taken)
    }

    /// Undoes it when it completes: a map is then unmapped again, on the thread that waits for it. A result that is
    /// there already is left, to be fetched with [`wait`](Self::wait); `false` says so. Where it cannot be undone,
    /// [`wait`](Self::wait) gives the error.
    ///
    /// Nothing is undone once the process has ended, except by a helper of [`Krbd::detached`](super::Krbd::detached).
    pub fn discard(&self) -> bool {
        let mut state = self.0.lock();
        match *state {
            State::Running => *state = State::Discarded,
            State::Discarded => {}
            State::Done(_) | State::Taken => return false,
        }
        true
    }
}

/// Somebody may wait for this without a deadline: a panic is an end too.
fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Other, "wait for the kernel").with_hint("the thread panicked")))
}

impl<T> Shared<T> {
    // Nothing that panics runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Of the same work.
impl<T> PartialEq for Pending<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for Pending<T> {}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match *self.0.lock() {
            State::Running => "running",
            State::Discarded => "running, to be discarded",
            State::Done(_) => "finished",
            State::Taken => "fetched",
        };
        f.debug_tuple("Pending").field(&state).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn start(work: impl FnOnce() -> Result<u32> + Send + 'static) -> Pending<u32> {
        Pending::start("test", work, |value| value, |_| Ok(())).unwrap()
    }

    #[test]
    fn a_result_is_given_once() {
        let pending = start(|| Ok(7));
        assert_eq!(pending.wait(None).unwrap().unwrap(), 7);
        assert!(pending.is_finished());
        assert_eq!(pending.clone().wait(None).unwrap().unwrap_err().kind(), ErrorKind::Changed);
    }

    #[test]
    fn waiting_ends_with_the_deadline_and_can_be_taken_up_again() {
        let (release, released) = mpsc::channel::<()>();
        let pending = start(move || Ok(released.recv().map_or(0, |()| 7)));
        assert!(pending.wait(Some(Duration::from_millis(5))).is_none());
        assert!(!pending.is_finished());
        release.send(()).unwrap();
        assert_eq!(pending.wait(None).unwrap().unwrap(), 7);
    }

    #[test]
    fn what_completes_after_it_was_discarded_is_undone() {
        let (release, released) = mpsc::channel::<()>();
        let (undo, undone) = mpsc::channel();
        let work = move || Ok(released.recv().map_or(0, |()| 7));
        let discard = move |value| {
            undo.send(value).unwrap();
            Ok(())
        };
        let pending = Pending::start("test", work, |_| panic!("accepted"), discard).unwrap();
        assert!(pending.discard());
        release.send(()).unwrap();
        assert_eq!(undone.recv().unwrap(), 7);
        assert_eq!(pending.wait(None).unwrap().unwrap_err().kind(), ErrorKind::Changed);
    }

    #[test]
    fn what_could_not_be_undone_is_told() {
        let (release, released) = mpsc::channel::<()>();
        let work = move || Ok(released.recv().map_or(0, |()| 7));
        let pending =
            Pending::start("test", work, |value| value, |_| Err(Error::from_errno("undo", libc::EBUSY))).unwrap();
        assert!(pending.discard());
        release.send(()).unwrap();
        assert_eq!(pending.wait(None).unwrap().unwrap_err().kind(), ErrorKind::Busy);
        assert!(pending.is_finished());
    }

    #[test]
    fn a_panic_is_an_error_and_keeps_nobody_waiting() {
        let pending = start(|| panic!("as it must be"));
        assert_eq!(pending.wait(None).unwrap().unwrap_err().kind(), ErrorKind::Other);
    }

    #[test]
    fn what_is_finished_cannot_be_discarded() {
        let pending = start(|| Ok(7));
        while !pending.is_finished() {
            std::thread::yield_now();
        }
        assert!(!pending.discard());
        assert_eq!(pending.wait(Some(Duration::ZERO)).unwrap().unwrap(), 7);
    }
}
