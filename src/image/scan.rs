//! The watchers of every image of a pool, without opening any.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::directory::{ImageEntry, Images};
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::rados::Pool;
use crate::watcher::Watcher;

/// How many header objects are asked at once. More does not pay: an OSD answers such a question in less time than it
/// takes to ask it.
const CONCURRENCY: usize = 8;

/// An image and who watches it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScannedImage {
    /// The image.
    pub image: ImageEntry,
    /// Its watchers; `NotFound` where it was removed after it had been listed.
    pub watchers: Result<Vec<Watcher>>,
}

/// The images of a pool with their watchers, as the answers come: in no certain order.
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
    /// The pool's deadline is that of the scan as a whole; [`without_deadline`](Pool::without_deadline) for a pool of any size.
    ///
    /// # Errors
    ///
    /// Of the items: where names cannot be listed, or the deadline has passed, an error, and the scan ends. What
    /// concerns one image is in [`ScannedImage::watchers`].
    pub fn scan_watchers(&self) -> Scan {
        let deadline = Deadline::after(self.deadline);
        let (sender, results) = mpsc::sync_channel(2 * CONCURRENCY);
        let images = Arc::new(Mutex::new(self.images()));
        for _ in 0..CONCURRENCY {
            let (pool, images, worker_sender) = (self.clone(), Arc::clone(&images), sender.clone());
            let worker = std::thread::Builder::new().name("rbd-scan".into()).stack_size(STACK);
            if let Err(error) = worker.spawn(move || work(&pool, &images, deadline, &worker_sender)) {
                let error = Error::new(ErrorKind::Other, SCAN).with_object(self).with_source(error);
                // The channel has room: this is the first thing in it from here.
                let _ = sender.try_send(Err(error));
                break;
            }
        }
        Scan { results, deadline, pool: self.clone() }
    }
}

const SCAN: &str = "scan watchers of pool";

/// What a thread that waits for librados needs, and some to spare.
const STACK: usize = 256 << 10;

fn work(pool: &Pool, images: &Mutex<Images>, deadline: Deadline, results: &mpsc::SyncSender<Result<ScannedImage>>) {
    loop {
        if deadline.is_over() {
            let _ = results.send(Err(timed_out(pool)));
            return;
        }
        // Whoever comes when a page is used up reads the next one; the others wait for it.
        let image = images.lock().unwrap_or_else(PoisonError::into_inner).next();
        let result = match image {
            None => return,
            Some(Err(error)) => Err(error),
            Some(Ok(image)) => {
                let pool = match deadline.left() {
                    Some(left) => pool.with_deadline(left),
                    None => pool.clone(),
                };
                let watchers = image.header_object().and_then(|header| pool.list_watchers(&header));
                Ok(ScannedImage { image, watchers })
            }
        };
        // Nobody listens any more: the scan was dropped.
        if results.send(result).is_err() {
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
