//! How long a call may take.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::thread::without_signals;

/// The moment by which a whole call must have returned, however many steps it has inside.
///
/// Calls take a [`Duration`], counted from their start; this is what they turn it into once, so that every step
/// inside is measured against the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// `None` is a call that may wait for ever.
    pub(crate) fn after(allowed: Option<Duration>) -> Self {
        // A duration too long for the clock is no limit.
        Self(allowed.and_then(|allowed| Instant::now().checked_add(allowed)))
    }

    /// The time that is left, zero once it is over; `None` where there is no limit.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0.map(|moment| moment.saturating_duration_since(Instant::now()))
    }

    /// `None` where there is no limit.
    #[cfg(feature = "librados")]
    pub(crate) fn moment(self) -> Option<Instant> {
        self.0
    }

    pub(crate) fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// Does `work`, which the kernel may hold for ever, on a thread of its own; `None` when the time is over first: the
    /// thread is left behind then, and goes on.
    pub(crate) fn wait_for<T: Send + 'static>(
        self,
        thread: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let work = move || drop(sender.send(work()));
        without_signals(|| thread::Builder::new().name(thread.into()).spawn(work))?;
        Ok(match self.left() {
            Some(left) => receiver.recv_timeout(left).ok(),
            None => receiver.recv().ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_never_over() {
        let deadline = Deadline::after(None);
        assert_eq!(deadline.left(), None);
        assert!(!deadline.is_over());
    }

    #[test]
    fn a_zero_deadline_is_over_at_once() {
        assert!(Deadline::after(Some(Duration::ZERO)).is_over());
    }

    #[test]
    fn a_duration_beyond_the_clock_is_no_limit() {
        assert_eq!(Deadline::after(Some(Duration::MAX)).left(), None);
    }

    #[test]
    fn work_that_hangs_is_left_behind_and_other_work_is_not() {
        let (release, gate) = mpsc::channel::<()>();
        let soon = Deadline::after(Some(Duration::from_millis(10)));
        assert_eq!(soon.wait_for("test", move || gate.recv().is_err()).unwrap(), None);
        drop(release);
        assert_eq!(Deadline::after(None).wait_for("test", || 7).unwrap(), Some(7));
    }

    #[test]
    fn the_time_left_is_not_more_than_was_allowed() {
        let allowed = Duration::from_secs(60);
        let left = Deadline::after(Some(allowed)).left().unwrap();
        assert!(left <= allowed && left > Duration::from_secs(50), "{left:?}");
    }
}
