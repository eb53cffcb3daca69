//! Threads for calls that have a deadline: librados and librbd cannot be interrupted, so whoever may not wait for ever
//! lets another thread wait.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::ffi::fork;
use crate::thread::without_signals;

type Job = Box<dyn FnOnce() + Send>;

/// A job, and the way to the thread that does it. An idle thread does not hold its own: so it ends at once when the
/// connection does.
type Message = (Job, Idle);

/// How long a thread waits for another call before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// How many calls of one connection may be under way at once. So many are stuck only where the cluster is gone and
/// its callers do not stop asking.
const MOST: usize = 512;

/// The threads of one connection. Those that have nothing to do are kept for a while: handing a call to one costs a
/// few microseconds.
#[derive(Debug)]
pub(crate) struct Workers {
    state: Mutex<State>,
    /// Of the process whose threads they are.
    generation: u32,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Idle>,
    threads: usize,
    last_id: u64,
}

/// A thread that waits for a call.
#[derive(Debug)]
struct Idle {
    id: u64,
    jobs: mpsc::Sender<Message>,
}

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum NoResult {
    /// The deadline passed. The call goes on, and what it returns will be dropped.
    TimedOut,
    /// There are too many calls under way, or there is no thread to be had; nothing was started.
    NoThread(io::Error),
}

impl Default for Workers {
    fn default() -> Self {
        Self { state: Mutex::default(), generation: fork::generation() }
    }
}

impl Drop for Workers {
    /// A fork does not have the threads, whose channels may be locked for ever: they leak.
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(&mut state.idle));
        }
    }
}

impl Workers {
    /// Runs `work` on another thread and waits for it until the deadline; without one, runs it here.
    ///
    /// What `work` owns and returns is dropped on that thread if the caller has gone by then.
    pub(crate) fn run<T: Send + 'static>(
        self: &Arc<Self>,
        deadline: Deadline,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoResult> {
        let Some(left) = deadline.left() else {
            return Ok(work());
        };
        let (answer, result) = mpsc::sync_channel::<Result<T, Box<dyn Any + Send>>>(1);
        self.start(Box::new(move || {
            // The caller may have gone: then the result ends here.
            let _ = answer.send(catch_unwind(AssertUnwindSafe(work)));
        }))
        .map_err(NoResult::NoThread)?;
        match result.recv_timeout(left) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(NoResult::TimedOut),
        }
    }

    /// Runs `work` on another thread and waits for nothing; a panic ends there.
    pub(crate) fn detach(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) -> Result<(), NoResult> {
        let job = Box::new(move || drop(catch_unwind(AssertUnwindSafe(work))));
        self.start(job).map_err(NoResult::NoThread)
    }

    fn start(self: &Arc<Self>, mut job: Job) -> io::Result<()> {
        let mut state = self.lock();
        while let Some(idle) = state.idle.pop() {
            let jobs = idle.jobs.clone();
            match jobs.send((job, idle)) {
                Ok(()) => return Ok(()),
                // It ended its wait just now.
                Err(mpsc::SendError((back, _))) => job = back,
            }
        }
        if state.threads >= MOST {
            return Err(io::Error::other(format!("{MOST} calls of this connection are under way")));
        }
        let (jobs, receiver) = mpsc::channel();
        let me = Idle { id: state.last_id + 1, jobs };
        let workers = Arc::downgrade(self);
        let work = move || work_through(&workers, &receiver, (job, me));
        without_signals(|| std::thread::Builder::new().name("rbd-call".into()).spawn(work))?;
        state.threads += 1;
        state.last_id += 1;
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's life. It holds the `Workers` weakly: a call may be the last user of the connection.
fn work_through(workers: &Weak<Workers>, jobs: &mpsc::Receiver<Message>, first: Message) {
    let mut message = first;
    loop {
        let (job, me) = message;
        let id = me.id;
        job();
        match workers.upgrade() {
            Some(workers) => workers.lock().idle.push(me),
            None => return,
        }
        message = match jobs.recv_timeout(IDLE) {
            Ok(next) => next,
            Err(_) => {
                let Some(workers) = workers.upgrade() else { return };
                let mut state = workers.lock();
                match jobs.try_recv() {
                    // It came between the time-out and the lock.
                    Ok(next) => next,
                    Err(_) => {
                        state.idle.retain(|idle| idle.id != id);
                        state.threads -= 1;
                        return;
                    }
                }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Deadline {
        Deadline::after(Some(Duration::from_millis(20)))
    }

    fn late() -> Deadline {
        Deadline::after(Some(Duration::from_secs(60)))
    }

    #[test]
    fn a_call_without_a_deadline_runs_on_the_callers_thread() {
        let workers = Arc::<Workers>::default();
        let thread = workers.run(Deadline::after(None), || std::thread::current().id()).unwrap();
        assert_eq!(thread, std::thread::current().id());
    }

    #[test]
    fn a_call_that_outlasts_its_deadline_is_left_behind_and_cleans_up_alone() {
        let workers = Arc::<Workers>::default();
        let (go_on, wait) = mpsc::channel::<()>();
        let (dropped, seen) = mpsc::channel();
        struct Result(mpsc::Sender<std::thread::ThreadId>);
        impl Drop for Result {
            fn drop(&mut self) {
                self.0.send(std::thread::current().id()).unwrap();
            }
        }
        let outcome = workers.run(soon(), move || {
            let _ = wait.recv();
            Result(dropped)
        });
        assert!(matches!(outcome, Err(NoResult::TimedOut)));
        go_on.send(()).unwrap();
        assert_ne!(seen.recv().unwrap(), std::thread::current().id());
    }

    #[test]
    fn an_idle_thread_takes_the_next_call() {
        let workers = Arc::<Workers>::default();
        let first = workers.run(late(), || std::thread::current().id()).unwrap();
        // It joins the idle ones just after it has answered.
        while workers.lock().idle.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(workers.run(late(), || std::thread::current().id()).unwrap(), first);
    }

    #[test]
    fn a_panic_in_a_call_reaches_the_caller() {
        let workers = Arc::<Workers>::default();
        let panic = catch_unwind(AssertUnwindSafe(|| workers.run(late(), || panic!("inside")))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"inside"));
    }

    #[test]
    fn calls_beyond_the_limit_are_refused_and_not_queued() {
        let workers = Arc::<Workers>::default();
        workers.lock().threads = MOST;
        let outcome = workers.run(late(), || ());
        assert!(matches!(outcome, Err(NoResult::NoThread(_))), "{outcome:?}");
    }
}
