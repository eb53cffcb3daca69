//! What all handles of one connection share: the C handle, its threads, and the rules that hold for every call.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::timer::{Limit, Timer};
use super::worker::{NoResult, Workers};
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::ffi::cluster::RadosHandle;
use crate::ffi::{Errno, callback};

/// How long a call may take where nothing else was said.
pub(super) const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// A connection. It ends when the last handle that was made from it is gone.
pub(crate) struct Connection {
    pub(crate) rados: Arc<RadosHandle>,
    workers: Arc<Workers>,
    timer: Timer,
    /// Whether an operation of an object starts without waiting for those that are under way.
    unthrottled: bool,
    /// The connection's global id, which stays the same. Read once: a forked child must not ask C.
    pub(super) instance_id: u64,
    /// Set by the first answer that says so; from then on no call goes out.
    blocklisted: AtomicBool,
}

/// By the name that the cluster has for it: the rest is of no use to whoever logs a handle.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&format_args!("client.{}", self.instance_id)).finish()
    }
}

impl Connection {
    pub(super) fn new(rados: RadosHandle, unthrottled: bool) -> Self {
        let instance_id = rados.instance_id();
        Self {
            rados: Arc::new(rados),
            workers: Arc::default(),
            timer: Timer::default(),
            unthrottled,
            instance_id,
            blocklisted: AtomicBool::new(false),
        }
    }

    /// Makes a call that waits for the cluster: by the deadline, on a connection that can be used, its errno made an
    /// error that says what was done to what.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        object: &dyn Display,
        deadline: Option<Duration>,
        work: impl FnOnce() -> Result<T, Errno> + Send + 'static,
    ) -> Result<T> {
        self.run(operation, object, deadline, work)?.map_err(|errno| self.error(operation, object, errno))
    }

    /// Makes a call that waits for nothing, on the caller's thread: librados answers it from memory.
    pub(crate) fn local<T>(
        &self,
        operation: &'static str,
        object: &dyn Display,
        work: impl FnOnce(&RadosHandle) -> Result<T, Errno>,
    ) -> Result<T> {
        self.check_usable(operation, object)?;
        work(&self.rados).map_err(|errno| self.error(operation, object, errno))
    }

    /// [`Self::call`] for work that also parses what it is told.
    pub(crate) fn call_and_parse<T: Send + 'static>(
        &self,
        operation: &'static str,
        object: &dyn Display,
        deadline: Option<Duration>,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        self.run(operation, object, deadline, work)?.map_err(|failure| self.failure(operation, object, failure))
    }

    /// [`Self::call_and_parse`] for work that binds each of its operations to the limit that it gets: they are
    /// withdrawn when the deadline passes.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        object: &dyn Display,
        deadline: Option<Duration>,
        work: impl FnOnce(&Limit<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        if !self.unthrottled {
            // Its start may wait too.
            return self.call_and_parse(operation, object, deadline, move || work(&Limit::none()));
        }
        self.check_usable(operation, object)?;
        #[cfg(feature = "tracing")]
        let started = std::time::Instant::now();
        let outcome = self.timer.limit(&self.workers, Deadline::after(deadline)).map(|limit| work(&limit));
        #[cfg(feature = "tracing")]
        tracing::debug!(operation, object = %object, elapsed = ?started.elapsed(), finished = outcome.is_ok());
        outcome.map_err(|reason| no_result(operation, object, reason))?.map_err(|failure| match failure {
            Failure::Errno(Errno::CANCELED) => timed_out(operation, object),
            failure => self.failure(operation, object, failure),
        })
    }

    /// [`Self::call`] for work whose failure is more than an errno.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        object: &dyn Display,
        deadline: Option<Duration>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.check_usable(operation, object)?;
        #[cfg(feature = "tracing")]
        let started = std::time::Instant::now();
        let outcome = self.workers.run(Deadline::after(deadline), work);
        #[cfg(feature = "tracing")]
        tracing::debug!(operation, object = %object, elapsed = ?started.elapsed(), finished = outcome.is_ok());
        outcome.map_err(|reason| no_result(operation, object, reason))
    }

    /// Makes calls on a thread of this connection, and waits for none of them.
    #[cfg(feature = "list-watchers")]
    pub(crate) fn detach(
        &self,
        operation: &'static str,
        object: &dyn Display,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        self.check_usable(operation, object)?;
        self.workers.detach(work).map_err(|reason| no_result(operation, object, reason))
    }

    fn failure(&self, operation: &'static str, object: &dyn Display, failure: Failure) -> Error {
        match failure {
            Failure::Errno(errno) => self.error(operation, object, errno),
            Failure::Answer(cause) => {
                Error::new(ErrorKind::InvalidData, operation).with_object(object).with_source(cause)
            }
        }
    }

    /// The error of an errno that a C call of this connection gave.
    pub(crate) fn error(&self, operation: &'static str, object: &dyn Display, errno: Errno) -> Error {
        if errno == Errno::BLOCKLISTED {
            self.blocklisted.store(true, Ordering::Relaxed);
        }
        let error = Error::from_errno(operation, errno.0).with_object(object);
        match error.kind() {
            ErrorKind::Blocklisted => error.with_hint(BLOCKLISTED_HINT),
            ErrorKind::TimedOut => error.with_hint(TIMED_OUT_HINT),
            ErrorKind::PermissionDenied => {
                error.with_hint("the user's capabilities do not allow it: see `ceph auth get`")
            }
            _ => error,
        }
    }

    /// Whether C may be asked what it answers without the cluster: it has locks, which a fork may have inherited
    /// locked.
    pub(crate) fn check_inherited(&self, operation: &'static str, object: &dyn Display) -> Result<()> {
        if self.rados.is_inherited() {
            return Err(Error::new(ErrorKind::NotConnected, operation)
                .with_object(object)
                .with_hint("the connection was inherited through fork; connect again in this process"));
        }
        Ok(())
    }

    /// Whether calls make sense at all; C must not be asked otherwise.
    pub(crate) fn check_usable(&self, operation: &'static str, object: &dyn Display) -> Result<()> {
        self.check_inherited(operation, object)?;
        check_outside_callbacks(operation, object)?;
        if self.blocklisted.load(Ordering::Relaxed) {
            return Err(Error::from_errno(operation, Errno::BLOCKLISTED.0)
                .with_object(object)
                .with_hint(BLOCKLISTED_HINT));
        }
        Ok(())
    }
}

/// Refuses what would wait for the C library on a thread that the library waits for itself.
pub(super) fn check_outside_callbacks(operation: &'static str, object: &dyn Display) -> Result<()> {
    if callback::is_inside() {
        return Err(Error::new(ErrorKind::Busy, operation)
            .with_object(object)
            .with_hint("made inside a callback, on a thread that the Ceph library waits for; do it after the call"));
    }
    Ok(())
}

fn timed_out(operation: &'static str, object: &dyn Display) -> Error {
    Error::new(ErrorKind::TimedOut, operation).with_object(object).with_hint(TIMED_OUT_HINT)
}

fn no_result(operation: &'static str, object: &dyn Display, reason: NoResult) -> Error {
    match reason {
        NoResult::TimedOut => timed_out(operation, object).with_details(Details::StillRunning),
        NoResult::NoThread(error) => no_thread(operation, object, error),
    }
}

pub(super) fn no_thread(operation: &'static str, object: &dyn Display, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Busy, operation)
        .with_object(object)
        .with_source(error)
        .with_hint("earlier calls still wait for the cluster, or the process has too many threads")
}

/// Why a call that also parses failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// C said so.
    Errno(Errno),
    /// C's answer makes no sense.
    Answer(Error),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Answer(error)
    }
}

const TIMED_OUT_HINT: &str = "the cluster did not answer in time; are its monitors and OSDs up?";
const BLOCKLISTED_HINT: &str = "this connection stays useless; drop its handles and connect again";
