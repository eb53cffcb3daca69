//! Writes to the bus in a process of their own, so that the kernel holds that and not the caller's.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::failure::Stage;
use super::helper::{self, NamedKey};
use super::{BusError, Krbd};
use crate::error::{Error, ErrorKind, Result};

/// The only argument of a helper. It has nothing to say: what is asked comes through the socket.
const MARK: &str = "--rbd-krbd-helper";

/// Whether this program would become a helper if it were run as one.
static CAN_HELP: AtomicBool = AtomicBool::new(false);

/// The first thing in `main` of a program that uses [`Krbd::detached`]: in a process that was started as a helper it
/// does the helper's work and does not return; elsewhere it returns at once.
///
/// Nothing may come before it that a helper should not do, such as starting threads or reading arguments.
pub fn helper_main() {
    CAN_HELP.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == MARK) && arguments.next().is_none() {
        helper::run();
    }
}

impl Krbd {
    /// The same driver, with maps and unmaps carried out by a helper process: this program, run again.
    ///
    /// A thread that the kernel holds keeps its process from ending ([Waiting](super#waiting)). The helper is a process
    /// in a session of its own, without terminal, directory or files of this one, so that this one can end: a shell gets
    /// its prompt back. It stays in the cgroup and the PID namespace: with these a service manager or the end of a
    /// container ends it too, or waits for it. It has the environment of this program. It is started with the first map or unmap (`/proc/self/exe`) and
    /// serves until the last clone of this `Krbd` is gone; a call that comes while it is held gets another one. It
    /// blocks signals, except for SIGKILL, and shows as `krbd-helper` in `ps`.
    ///
    /// If this program has ended when a map completes, then the helper unmaps it again (Linux 4.9). An unmap is carried
    /// through.
    ///
    /// Keys go to the helper through a socket. One that is [preloaded](super::Credentials::preloaded) must be in the
    /// session's or the user's keyring: other keyrings are not inherited.
    ///
    /// # Errors
    ///
    /// Maps and unmaps give `Unsupported` if the program did not begin with [`helper_main`], `NotFound` if proc is not
    /// mounted, and `Other` if the helper was killed: whether the kernel carried the request out is then not known.
    #[must_use]
    pub fn detached(self) -> Self {
        Self { helpers: Some(Arc::new(Helpers::default())), ..self }
    }

    /// What can write to the bus right away: a helper has been started if there is to be one.
    pub(super) fn writer(&self, operation: &'static str) -> Result<Writer<'_>> {
        let helper = match &self.helpers {
            Some(helpers) => Some((&**helpers, helpers.get(self, operation)?)),
            None => None,
        };
        Ok(Writer { krbd: self, helper })
    }
}

/// Writes one request.
pub(super) struct Writer<'a> {
    krbd: &'a Krbd,
    helper: Option<(&'a Helpers, Helper)>,
}

impl Writer<'_> {
    /// `verb` is the file, without `_single_major`. The key is for the helper: the calling thread has it.
    pub(super) fn write(self, verb: &str, text: &[u8], key: Option<NamedKey<'_>>) -> Result<(), BusError> {
        let Some((helpers, helper)) = self.helper else {
            return (self.krbd.bus.0)(&self.krbd.bus_file(verb), text);
        };
        let Ok(result) = helper::ask(&helper.stream, verb, text, key) else {
            let ended = io::Error::other("the helper process ended without an answer");
            return Err(BusError(Stage::Write, ended));
        };
        helpers.lock().push(helper);
        result
    }
}

/// The helpers that nobody has asked anything at the moment.
#[derive(Default)]
pub(super) struct Helpers(Mutex<Vec<Helper>>);

impl Helpers {
    fn get(&self, krbd: &Krbd, operation: &'static str) -> Result<Helper> {
        while let Some(mut helper) = self.idle() {
            // It may have been killed while it had nothing to do.
            if matches!(helper.process.try_wait(), Ok(None)) {
                return Ok(helper);
            }
        }
        Helper::start(krbd, operation)
    }

    fn idle(&self) -> Option<Helper> {
        self.lock().pop()
    }

    // Nothing that panics runs under the lock.
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Helper>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A helper process and the socket to it.
struct Helper {
    stream: UnixStream,
    process: Child,
}

impl Helper {
    fn start(krbd: &Krbd, operation: &'static str) -> Result<Self> {
        let failed = |error| {
            Error::from_io(operation, error)
                .with_hint("the helper process could not be started; is /proc mounted?")
                .at(Stage::Preflight)
        };
        if !CAN_HELP.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unsupported, operation)
                .with_hint("for Krbd::detached the program must call rbd::krbd::helper_main first")
                .at(Stage::Preflight));
        }
        let (stream, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(std::env::args_os().next().unwrap_or_default()).arg(MARK);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().map_err(failed)?;
        // The command has the other end too: without it, the end of the helper is the end of the stream.
        drop(command);
        let helper = Self { stream, process };
        helper::greet(&helper.stream, krbd).map_err(failed)?;
        Ok(helper)
    }
}

impl Drop for Helper {
    /// Nothing is asked of it any more, so it ends.
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_ended_while_it_was_idle_is_not_asked() {
        let mut process = Command::new("true").spawn().unwrap();
        process.wait().unwrap();
        let (stream, _) = UnixStream::pair().unwrap();
        let helpers = Helpers(Mutex::new(vec![Helper { stream, process }]));
        // Instead it would start another, which this program cannot be.
        let error = helpers.get(&Krbd::new(), "map image").map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(helpers.lock().is_empty());
    }
}
