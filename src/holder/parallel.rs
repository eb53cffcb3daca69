//! The same work on many things, over the cores, within a time, whatever hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::deadline::Deadline;

/// When no answer has come for this long, a worker is taken for stuck and another one is started.
const PATIENCE: Duration = Duration::from_millis(50);
/// More workers than this are never started for one piece of work.
const MOST_WORKERS: usize = 64;
/// Fewer items than this are not worth another thread.
const SHARE: usize = 32;

/// Calls `work` with each of `items` and gives the answers in the order of the items, `None` where there was none in
/// time.
///
/// Reading a file of a process can block for as long as the process is stuck in the kernel. The threads are therefore
/// not joined: one that is stuck stays behind until the kernel lets it go, and then ends.
pub(super) fn each<I, T, F>(items: &Arc<Vec<I>>, deadline: Deadline, work: F) -> Vec<Option<T>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(&I) -> T + Send + Sync + 'static,
{
    let (sender, receiver) = mpsc::channel();
    let crew =
        Arc::new(Crew { items: Arc::clone(items), next: AtomicUsize::new(0), over: AtomicBool::new(false), work });
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut workers = 0;
    for _ in 0..cores.min(items.len().div_ceil(SHARE)) {
        workers += crew.start_worker(&sender);
    }
    let mut answers: Vec<Option<T>> = items.iter().map(|_| None).collect();
    let mut missing = items.len();
    while missing > 0 && !deadline.is_over() {
        let wait = deadline.left().map_or(PATIENCE, |left| left.min(PATIENCE));
        match receiver.recv_timeout(wait) {
            Ok((index, answer)) => {
                let slot: &mut Option<T> = &mut answers[index];
                *slot = Some(answer);
                missing -= 1;
            }
            Err(RecvTimeoutError::Timeout) if workers < MOST_WORKERS && crew.has_more() => {
                workers += crew.start_worker(&sender);
            }
            Err(_) => {}
        }
    }
    crew.over.store(true, Ordering::Relaxed);
    answers
}

struct Crew<I, F> {
    items: Arc<Vec<I>>,
    next: AtomicUsize,
    over: AtomicBool,
    work: F,
}

impl<I: Send + Sync + 'static, F> Crew<I, F> {
    fn has_more(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.items.len()
    }

    /// How many were started: none where the system refuses a thread.
    fn start_worker<T>(self: &Arc<Self>, answers: &Sender<(usize, T)>) -> usize
    where
        T: Send + 'static,
        F: Fn(&I) -> T + Send + Sync + 'static,
    {
        let (crew, answers) = (Arc::clone(self), answers.clone());
        let worker = move || {
            while !crew.over.load(Ordering::Relaxed) {
                let index = crew.next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = crew.items.get(index) else { break };
                if answers.send((index, (crew.work)(item))).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("rbd-holder".into()).spawn(worker).is_ok().into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Instant;

    use super::*;

    fn within(seconds: u64) -> Deadline {
        Deadline::after(Some(Duration::from_secs(seconds)))
    }

    #[test]
    fn answers_come_in_the_order_of_the_items() {
        let answers = each(&Arc::new((0..1000).collect()), within(60), |number: &i32| number * 2);
        assert_eq!(answers, (0..1000).map(|number| Some(number * 2)).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_to_do_is_done_at_once() {
        assert!(each(&Arc::new(Vec::new()), within(60), |_: &i32| ()).is_empty());
    }

    #[test]
    fn items_that_hang_cost_their_own_answers_only() {
        // More items hang than there are cores.
        let (release, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let start = Instant::now();
        let answers =
            each(&Arc::new((0..100).collect()), Deadline::after(Some(Duration::from_secs(2))), move |number: &i32| {
                if number % 10 == 0 {
                    let _closed = gate.lock().map(|gate| gate.recv());
                }
                *number
            });
        assert!(start.elapsed() < Duration::from_secs(20));
        drop(release);
        for (number, answer) in (0..100).zip(answers) {
            assert_eq!(answer.is_none(), number % 10 == 0, "{number}");
        }
    }

    #[test]
    fn a_deadline_that_is_over_starts_no_work() {
        let answers = each(&Arc::new(vec![1, 2]), Deadline::after(Some(Duration::ZERO)), |number: &i32| *number);
        assert_eq!(answers.len(), 2);
    }
}
