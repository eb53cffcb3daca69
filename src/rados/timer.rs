//! Deadlines of operations that librados lets go of when it is told: they are made on the caller's thread, which saves
//! handing them to another one and back.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::worker::{NoResult, Workers};
use crate::deadline::Deadline;
use crate::ffi::fork;
use crate::ffi::operation::Operation;

/// How long the thread stays while there is no deadline to keep.
const IDLE: Duration = Duration::from_secs(10);

/// Withdraws the operations of one connection whose deadline has passed, on a thread that is there while there are any.
#[derive(Debug)]
pub(super) struct Timer {
    shared: Arc<Shared>,
    /// Of the process whose thread it is.
    generation: u32,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The calls whose deadline has not passed, in its order, each with the operation that is under way for it.
    calls: BTreeMap<Key, Option<Arc<Operation>>>,
    last_id: u64,
    /// When the thread will look next; `None` where there is none.
    next_look: Option<Instant>,
    closed: bool,
}

/// The deadline, and a number for calls of the same one.
type Key = (Instant, u64);

/// The deadline of one call; dropped at its end. Without one the call may wait for ever.
#[derive(Debug)]
pub(crate) struct Limit<'a>(Option<(&'a Shared, Key)>);

impl Default for Timer {
    fn default() -> Self {
        Self { shared: Arc::default(), generation: fork::generation() }
    }
}

impl Timer {
    /// Begins to keep a call's deadline.
    pub(super) fn limit(&self, workers: &Arc<Workers>, deadline: Deadline) -> Result<Limit<'_>, NoResult> {
        let Some(moment) = deadline.moment() else {
            return Ok(Limit::none());
        };
        let mut state = self.shared.lock();
        match state.next_look {
            Some(look) if look <= moment => {}
            Some(_) => self.shared.changed.notify_one(),
            None => {
                let shared = Arc::clone(&self.shared);
                workers.detach(move || shared.keep_deadlines())?;
                // It looks once it has the lock.
                state.next_look = Some(Instant::now());
            }
        }
        state.last_id += 1;
        let key = (moment, state.last_id);
        state.calls.insert(key, None);
        Ok(Limit(Some((&self.shared, key))))
    }
}

impl Drop for Timer {
    /// A fork does not have the thread, and may have its lock held for ever.
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            self.shared.lock().closed = true;
            self.shared.changed.notify_one();
        }
    }
}

impl Limit<'_> {
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Has the operation withdrawn when the deadline passes: the one that is under way now, if the call has several.
    pub(crate) fn bind(&self, operation: &Arc<Operation>) {
        let Some((shared, key)) = &self.0 else { return };
        match shared.lock().calls.get_mut(key) {
            Some(under_way) => *under_way = Some(Arc::clone(operation)),
            None => operation.cancel(),
        }
    }
}

impl Drop for Limit<'_> {
    fn drop(&mut self) {
        if let Some((shared, key)) = &self.0 {
            let _ended = shared.lock().calls.remove(key);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_deadlines(&self) {
        let mut state = self.lock();
        let mut was_idle = false;
        loop {
            let now = Instant::now();
            while let Some(call) = state.calls.first_entry()
                && call.key().0 <= now
            {
                // With the lock held, which the caller needs to end the call: it has what the operation keeps alive.
                if let Some(operation) = call.remove() {
                    operation.cancel();
                }
            }
            let next = state.calls.first_key_value().map(|((moment, _), _)| *moment);
            if next.is_none() && (was_idle || state.closed) {
                state.next_look = None;
                return;
            }
            was_idle = next.is_none();
            let next = next.unwrap_or(now + IDLE);
            state.next_look = Some(next);
            let waited = self.changed.wait_timeout(state, next.saturating_duration_since(now));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_after<'a>(timer: &'a Timer, workers: &Arc<Workers>, allowed: Duration) -> Limit<'a> {
        timer.limit(workers, Deadline::after(Some(allowed))).unwrap()
    }

    fn has_passed(limit: &Limit<'_>) -> bool {
        let (shared, key) = limit.0.as_ref().unwrap();
        !shared.lock().calls.contains_key(key)
    }

    fn wait_until(condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(30), "it has not come true");
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_earlier_deadline_is_kept_while_the_thread_waits_for_a_later_one() {
        let (timer, workers) = (Timer::default(), Arc::default());
        let late = limit_after(&timer, &workers, Duration::from_secs(600));
        let look = late.0.as_ref().unwrap().1.0;
        wait_until(|| timer.shared.lock().next_look == Some(look));
        let soon = limit_after(&timer, &workers, Duration::from_millis(1));
        wait_until(|| has_passed(&soon));
        assert!(!has_passed(&late));
    }

    #[test]
    fn calls_with_the_same_deadline_are_kept_apart() {
        let (timer, workers) = (Timer::default(), Arc::default());
        let deadline = Deadline::after(Some(Duration::from_secs(600)));
        let limits = [(); 2].map(|()| timer.limit(&workers, deadline).unwrap());
        assert_eq!(timer.shared.lock().calls.len(), 2);
        drop(limits);
        assert_eq!(timer.shared.lock().calls.len(), 0);
    }

    #[test]
    fn the_thread_ends_with_the_connection() {
        let (timer, workers) = (Timer::default(), Arc::default());
        drop(limit_after(&timer, &workers, Duration::from_secs(600)));
        let shared = Arc::downgrade(&timer.shared);
        drop(timer);
        wait_until(|| shared.strong_count() == 0);
    }

    #[test]
    fn without_a_deadline_there_is_no_thread() {
        let timer = Timer::default();
        timer.limit(&Arc::default(), Deadline::after(None)).unwrap();
        assert_eq!(timer.shared.lock().next_look, None);
    }
}
