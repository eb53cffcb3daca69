//! The watchers of every image of a pool, without opening any.

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::directory::ImageEntry;
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::rados::Pool;
use crate::watcher::Watcher;

/// How many header objects are asked at once. Each costs librados some three KiB; with an OSD at hand one at a time
/// takes twice as long, and 32 are hardly faster.
const UNDER_WAY: usize = 16;

/// An image and who watches it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScannedImage {
    /// The image.
    pub image: ImageEntry,
    /// Its watchers; `NotFound` where it was removed after it had been listed.
    pub watchers: Result<Vec<Watcher>>,
}

/// The images of a pool with their watchers, as the answers come, in the order of [`Pool::images`].
///
/// Dropping it ends the scan without waiting: for the questions under way the connection lives on, and
/// [`Cluster::disconnect`](crate::Cluster::disconnect) is `Busy`.
#[derive(Debug)]
pub struct Scan {
    results: mpsc::Receiver<Result<ScannedImage>>,
    deadline: Deadline,
    pool: Pool,
}

impl Pool {
    /// Asks for the watchers of every image of this pool and namespace, a few at a time.
    ///
    /// The pool's deadline is that of the scan as a whole; [`without_deadline`](Pool::without_deadline) for a pool of
    /// any size.
    ///
    /// # Errors
    ///
    /// Of the items: where names cannot be listed, or the deadline has passed, an error, and the scan ends. What
    /// concerns one image is in [`ScannedImage::watchers`].
    pub fn scan_watchers(&self) -> Scan {
        let deadline = Deadline::after(self.deadline);
        let (sender, results) = mpsc::sync_channel(UNDER_WAY);
        // The deadline is kept by whoever reads the results; the calls of the thread that asks have none.
        let pool = self.without_deadline();
        let refused = sender.clone();
        if let Err(error) = self.connection.detach(SCAN, self, move || ask(&pool, deadline, &sender)) {
            // The channel has room: this is all that will ever be in it.
            let _ = refused.try_send(Err(error));
        }
        Scan { results, deadline, pool: self.clone() }
    }
}

const SCAN: &str = "scan watchers of pool";

/// Asks for the watchers of one image after the other, and hands on the answers in the same order.
fn ask(pool: &Pool, deadline: Deadline, results: &mpsc::SyncSender<Result<ScannedImage>>) {
    let mut questions = pool.images().map(|image| {
        let image = image?;
        let question = image.header_object().and_then(|header| {
            let request = pool.ask_watchers(header.as_str())?;
            Ok((header, request))
        });
        Ok((image, question))
    });
    let mut asked = VecDeque::with_capacity(UNDER_WAY);
    loop {
        asked.extend(questions.by_ref().take(UNDER_WAY - asked.len()));
        let answer = match asked.pop_front() {
            None => return,
            Some(Err(error)) => Err(error),
            Some(Ok((image, question))) => {
                let watchers = question.and_then(|(header, request)| pool.hear_watchers(header.as_str(), request));
                Ok(ScannedImage { image, watchers })
            }
        };
        // Where nobody listens any more, the scan was dropped.
        if results.send(answer).is_err() {
            return;
        }
        if deadline.is_over() {
            let _ = results.send(Err(timed_out(pool)));
            return;
        }
    }
}

fn timed_out(pool: &Pool) -> Error {
    Error::new(ErrorKind::TimedOut, SCAN).with_object(pool)
}

impl Iterator for Scan {
    type Item = Result<ScannedImage>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = match self.deadline.left() {
            None => self.results.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(left) => self.results.recv_timeout(left),
        };
        match result {
            Ok(Ok(image)) => Some(Ok(image)),
            Err(RecvTimeoutError::Disconnected) => None,
            failed => {
                // What the others find after that is not waited for.
                self.results = mpsc::channel().1;
                Some(match failed {
                    Ok(error) => error,
                    Err(_) => Err(timed_out(&self.pool).with_details(Details::StillRunning)),
                })
            }
        }
    }
}

impl Scan {
    /// How long the scan may still take; `None` without a deadline.
    pub fn left(&self) -> Option<Duration> {
        self.deadline.left()
    }
}
