//! Writes to the bus in a process of their own, so that the kernel holds that and not the caller's.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::failure::Stage;
use super::helper::{self, Ended, NamedKey};
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
    /// in a session of its own, without terminal, directory or files of this one, so that this one can end: a shell
    /// gets its prompt back. It stays in the cgroup and the namespaces of the thread that started it: a service manager
    /// or the end of a container ends it too, or waits for it, and a thread that enters another network namespace for
    /// its maps needs a `Krbd` of its own. It has the environment of this program, blocks signals, except for SIGKILL,
    /// and shows as `krbd-helper` in `ps`.
    ///
    /// It is started with the first map or unmap (`/proc/self/exe`) and serves until the last clone of this `Krbd` is
    /// gone. A call that comes while it is held gets another one, and so does the first call after a fork; four at most
    /// stay for further calls.
    ///
    /// If this program ends before a map has completed, then the helper has the kernel give it up, and what came of it
    /// all the same is unmapped (Linux 4.9). A program that ends because of a deadline calls
    /// [`Pending::discard`](super::Pending::discard) first: the map may complete in between. An unmap is carried through.
    ///
    /// Keys go to the helper through a socket. One that is [preloaded](super::Credentials::preloaded) must be in the
    /// session's or the user's keyring: other keyrings are not inherited.
    ///
    /// # Errors
    ///
    /// Maps and unmaps give `Unsupported` if the program did not begin with [`helper_main`], or proc is not mounted,
    /// and `Other` if the helper was killed at work and nothing came of it, or that cannot be known (before Linux 4.9).
    /// A program with capabilities of its file (setcap(8)) cannot be a helper.
    #[must_use]
    pub fn detached(self) -> Self {
        Self { helpers: Some(Arc::new(Helpers::default())), ..self }
    }

    /// Writes one request to the bus: `verb` is the file, without `_single_major`. The key is for a helper: the calling
    /// thread has it. `check` is what must hold right before, when that which writes is there.
    pub(super) fn write(
        &self,
        operation: &'static str,
        object: &dyn fmt::Display,
        verb: &str,
        text: &[u8],
        key: Option<&NamedKey<'_>>,
        check: impl Fn() -> Result<()>,
    ) -> Result<Result<Written, BusError>> {
        let Some(helpers) = &self.helpers else {
            check()?;
            return Ok((self.bus.0)(&self.bus_file(verb), text).map(|()| Written::directly()));
        };
        loop {
            let idle = helpers.idle();
            let was_idle = idle.is_some();
            let helper =
                idle.map_or_else(|| Helper::start(self, operation), Ok).map_err(|error| error.with_object(object))?;
            check()?;
            let why = match helper::ask(&helper.stream, verb, text, key) {
                Ok(result) => {
                    let written = Written(Some((Arc::clone(helpers), helper)));
                    return Ok(match result {
                        Ok(()) => Ok(written),
                        Err(error) => {
                            written.keep();
                            Err(error)
                        }
                    });
                }
                // It was killed while it had nothing to do: another can be asked.
                Err(Ended::BeforeRequest) if was_idle => continue,
                Err(Ended::BeforeRequest) => "the helper process ended before it was asked",
                Err(Ended::WithoutAnswer) => "the helper process ended without an answer",
            };
            return Ok(Err(BusError(Stage::Write, io::Error::other(why))));
        }
    }

    /// Has another process unmap what bears `mark`, once this one has ended.
    pub(super) fn leave_undoing(&self, mark: &[u8]) -> Result<()> {
        const OPERATION: &str = "unmap what is given up";
        let helper = Helper::start(self, OPERATION)?;
        helper::ask_to_undo(&helper.stream, mark).map_err(|error| Error::from_io(OPERATION, error))?;
        // The end of the stream is to be the end of this process.
        std::mem::forget(helper);
        Ok(())
    }
}

/// What was carried out. If it is dropped and not kept, or this program ends before that, then the helper that mapped
/// unmaps again.
pub(super) struct Written(Option<(Arc<Helpers>, Helper)>);

impl Written {
    /// Not by a helper that could undo it.
    pub(super) fn directly() -> Self {
        Self(None)
    }

    pub(super) fn keep(self) {
        if let Some((helpers, helper)) = self.0 {
            helper::acknowledge(&helper.stream);
            let mut idle = helpers.lock();
            // The others end: many maps at once are no reason to have as many processes ever after.
            if idle.len() < MOST_IDLE {
                idle.push(helper);
            }
        }
    }
}

/// How many helpers wait for the next request.
const MOST_IDLE: usize = 4;

/// The helpers that nobody has asked anything at the moment.
#[derive(Default)]
pub(super) struct Helpers(Mutex<Vec<Helper>>);

impl Helpers {
    fn idle(&self) -> Option<Helper> {
        let mut idle = self.lock();
        // A process that was forked from this one leaves them to it.
        idle.retain(Helper::is_ours);
        idle.pop()
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
    /// The process that started it.
    parent: u32,
}

impl Helper {
    fn start(krbd: &Krbd, operation: &'static str) -> Result<Self> {
        let failed = |error: io::Error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let failed = Error::from_io(operation, error).at(Stage::Preflight);
            match is_missing {
                // Not the image.
                true => {
                    failed.with_kind(ErrorKind::Unsupported).with_hint("a helper process needs /proc to be mounted")
                }
                false => failed.with_hint("the helper process could not be started"),
            }
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
        let helper = Self { stream, process, parent: std::process::id() };
        // It ended, which says nothing of the request.
        helper::greet(&helper.stream, krbd).map_err(|error| failed(io::Error::other(error)))?;
        Ok(helper)
    }

    fn is_ours(&self) -> bool {
        self.parent == std::process::id()
    }
}

impl Drop for Helper {
    /// Nothing is asked of it any more, so it ends.
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper_of(parent: u32) -> (Helper, UnixStream) {
        let process = Command::new("true").spawn().unwrap();
        let (stream, theirs) = UnixStream::pair().unwrap();
        (Helper { stream, process, parent }, theirs)
    }

    #[test]
    fn a_helper_that_was_killed_while_it_was_idle_is_followed_by_another() {
        let (helper, theirs) = helper_of(std::process::id());
        let krbd = Krbd::new().detached();
        krbd.helpers.as_ref().unwrap().lock().push(helper);
        drop(theirs);
        // The other would be started, which this program cannot be.
        let error = krbd.write("map image", &"p/i", "add", b"", None, || Ok(())).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_forked_process_neither_asks_nor_ends_its_parents_helpers() {
        let (helper, mut theirs) = helper_of(std::process::id() + 1);
        let stream = helper.stream.try_clone().unwrap();
        let helpers = Helpers(Mutex::new(vec![helper]));
        assert!(helpers.idle().is_none());
        // The parent's end is as it was.
        io::Write::write_all(&mut &stream, b"?").unwrap();
        io::Read::read_exact(&mut theirs, &mut [0]).unwrap();
    }
}
