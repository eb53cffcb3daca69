//! The same work on many things, over the cores, within a time, whatever hangs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::thread::without_signals;

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
    let count = items.len();
    // One message, from whoever gives the last answer: to be woken for each would cost more than most answers do.
    let (sender, receiver) = mpsc::sync_channel(1);
    let crew = Arc::new(Crew {
        items: Arc::clone(items),
        answers: items.iter().map(|_| Mutex::new(None)).collect(),
        next: AtomicUsize::new(0),
        answered: AtomicUsize::new(0),
        over: AtomicBool::new(false),
        all_answered: sender,
        work,
    });
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut workers = 0;
    for _ in 0..cores.min(count.div_ceil(SHARE)) {
        workers += crew.start_worker();
    }
    let mut answered = 0;
    while count > 0 && !deadline.is_over() {
        let wait = deadline.left().map_or(PATIENCE, |left| left.min(PATIENCE));
        if receiver.recv_timeout(wait).is_ok() {
            break;
        }
        let before = std::mem::replace(&mut answered, crew.answered.load(Ordering::Relaxed));
        let has_more = crew.next.load(Ordering::Relaxed) < count;
        if answered == before && has_more && workers < MOST_WORKERS {
            workers += crew.start_worker();
        }
    }
    crew.over.store(true, Ordering::Relaxed);
    crew.answers.iter().map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).take()).collect()
}

struct Crew<I, T, F> {
    items: Arc<Vec<I>>,
    answers: Vec<Mutex<Option<T>>>,
    next: AtomicUsize,
    answered: AtomicUsize,
    over: AtomicBool,
    all_answered: SyncSender<()>,
    work: F,
}

impl<I, T, F> Crew<I, T, F>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(&I) -> T + Send + Sync + 'static,
{
    /// How many were started: none where the system refuses a thread.
    fn start_worker(self: &Arc<Self>) -> usize {
        let crew = Arc::clone(self);
        without_signals(|| thread::Builder::new().name("rbd-holder".into()).spawn(move || crew.work())).is_ok().into()
    }

    fn work(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let (Some(item), Some(slot)) = (self.items.get(index), self.answers.get(index)) else { break };
            let answer = (self.work)(item);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            if self.answered.fetch_add(1, Ordering::Relaxed) + 1 == self.items.len() {
                // Nobody is there to hear it once the time is over.
                let _heard = self.all_answered.try_send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
