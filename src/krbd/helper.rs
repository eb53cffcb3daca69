//! The helper process: what it is asked, and what it does.
//!
//! One socket, its standard input, carries everything. It gets the directories once and says that it is ready; then for
//! each write it gets the file's name, the text and the key, answers with stage and errno, and waits for a byte that
//! says that the answer has come to somebody.
//!
//! The kernel carries out one map after the other as long as it looks for the monitors of one of them, a minute for
//! each that finds none. So a map that nobody waits for any more must not go on: its helper ends, with which the kernel
//! gives up, and leaves it to another to unmap what came of it all the same.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::net;
use zeroize::Zeroizing;

use super::cephx_key::CephxKey;
use super::failure::Stage;
use super::origin::Origin;
use super::unmap::UnmapOptions;
use super::{BusError, Krbd, sys};
use crate::secret::Secret;

/// A key on its way to the kernel's keyring: what it is called there, and its text.
pub(super) type NamedKey<'a> = (String, &'a Secret);

/// In the place of the file's name. There is no answer.
const UNDO: &[u8] = b"undo";

/// More than any part of a request has.
const LONGEST: u32 = 1 << 16;

// --- both ends -------------------------------------------------------------------------------------------------------

/// Writes each part with its length before it.
fn send(stream: &UnixStream, parts: &[&[u8]]) -> io::Result<()> {
    // Of the full length from the start: a vector that grows leaves copies of the secret behind.
    let mut message = Zeroizing::new(Vec::with_capacity(parts.iter().map(|part| 4 + part.len()).sum()));
    for part in parts {
        let length = u32::try_from(part.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        message.extend_from_slice(&length.to_le_bytes());
        message.extend_from_slice(part);
    }
    write_all(stream, &message)
}

/// The other end may be gone, and that must not end this program: std writes as write(2) does, with SIGPIPE.
fn write_all(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = retry_on_intr(|| net::send(stream, bytes, net::SendFlags::NOSIGNAL))?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

fn receive(mut stream: &UnixStream) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut part = Zeroizing::new(vec![0; length as usize]);
    stream.read_exact(&mut part)?;
    Ok(part)
}

fn byte(mut stream: &UnixStream) -> io::Result<()> {
    stream.read_exact(&mut [0])
}

// --- the end that asks -----------------------------------------------------------------------------------------------

/// Tells the helper where the host's directories are, and waits until it is ready.
pub(super) fn greet(stream: &UnixStream, krbd: &Krbd) -> io::Result<()> {
    // It has another working directory.
    let [sys, dev, proc] = [&krbd.sysfs.root, &krbd.sysfs.dev, &krbd.proc].map(std::path::absolute);
    let directories = [sys?, dev?, proc?];
    send(stream, &directories.each_ref().map(|path| path.as_os_str().as_bytes()))?;
    byte(stream)
}

/// A helper that ended without an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It had not read the whole request: nothing was done.
    BeforeRequest,
    /// Nobody knows what it did.
    WithoutAnswer,
}

/// Has the helper write `text` to the bus.
pub(super) fn ask(
    mut stream: &UnixStream,
    verb: &str,
    text: &[u8],
    key: Option<&NamedKey<'_>>,
) -> Result<Result<(), BusError>, Ended> {
    let (name, secret) = match key {
        Some((name, secret)) => (name.as_str(), secret.expose()),
        None => ("", ""),
    };
    let mut answer = [0; 5];
    let sent = send(stream, &[verb.as_bytes(), text, name.as_bytes(), secret.as_bytes()]);
    sent.map_err(|_| Ended::BeforeRequest)?;
    stream.read_exact(&mut answer).map_err(|error| match error.kind() {
        // What the kernel says of an end that was closed with something in it unread (`unix_release_sock`).
        io::ErrorKind::ConnectionReset => Ended::BeforeRequest,
        _ => Ended::WithoutAnswer,
    })?;
    let [stage, errno @ ..] = answer;
    let stage = match stage {
        0 => return Ok(Ok(())),
        1 => Stage::AddKey,
        2 => Stage::Open,
        _ => Stage::Write,
    };
    Ok(Err(BusError(stage, io::Error::from_raw_os_error(i32::from_le_bytes(errno)))))
}

/// Tells the helper that its answer has come to somebody: what it mapped stays, also if this program ends.
pub(super) fn acknowledge(stream: &UnixStream) {
    // A helper that was killed meanwhile has answered all the same.
    let _ = write_all(stream, b"+");
}

/// Has the helper unmap what bears `mark`, once this process has ended.
pub(super) fn ask_to_undo(stream: &UnixStream, mark: &[u8]) -> io::Result<()> {
    send(stream, &[UNDO, mark, b"", b""])
}

fn answer(result: &Result<(), BusError>) -> [u8; 5] {
    let Err(BusError(stage, error)) = result else { return [0; 5] };
    let stage = match stage {
        Stage::AddKey => 1,
        Stage::Open => 2,
        _ => 3,
    };
    let [a, b, c, d] = error.raw_os_error().unwrap_or(libc::EIO).to_le_bytes();
    [stage, a, b, c, d]
}

// --- the helper ------------------------------------------------------------------------------------------------------

/// Serves one program until that closes its end. What it mapped for a program that is no longer there to be told, it
/// unmaps again.
pub(super) fn serve(stream: &UnixStream) -> io::Result<()> {
    let directory = || receive(stream).map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(&path)));
    let krbd = Krbd::with_roots(directory()?, directory()?, directory()?);
    serve_with(&krbd, stream, |mark| {
        // Where that is not possible this one goes on.
        if krbd.leave_undoing(mark).is_ok() {
            std::process::exit(0);
        }
    })
}

/// The same with a driver that is known already. `give_up` is called with the mark of a map that nobody waits for any
/// more.
pub(super) fn serve_with(krbd: &Krbd, stream: &UnixStream, give_up: impl Fn(&[u8])) -> io::Result<()> {
    write_all(stream, b"+")?;
    loop {
        let verb = match receive(stream) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            verb => verb?,
        };
        let text = receive(stream)?;
        let key = (receive(stream)?, receive(stream)?);
        if *verb == UNDO {
            let _until_it_has_ended = byte(stream);
            undo(krbd, &text);
            return Ok(());
        }
        let is_map = *verb == b"add";
        // The key is in the thread's keyring and goes with the thread.
        let result = std::thread::scope(|scope| {
            let not_begun = |error| BusError(Stage::Open, error);
            let (end, at_work) = UnixStream::pair().map_err(not_begun)?;
            let (verb, text) = (&verb, &text);
            let write = std::thread::Builder::new().spawn_scoped(scope, move || {
                let _at_work = at_work;
                carry_out(krbd, verb, text, key)
            });
            let write = write.map_err(not_begun)?;
            if is_map && !ends_first(&end, stream) {
                give_up(mark(text));
            }
            write.join().unwrap_or_else(|_| Err(BusError(Stage::Write, io::Error::from_raw_os_error(libc::EIO))))
        });
        let told = write_all(stream, &answer(&result)).and_then(|()| byte(stream));
        if told.is_err() && result.is_ok() && is_map {
            undo(krbd, mark(&text));
        }
        told?;
    }
}

/// Waits for the work's end, and is `false` if the program's came first.
fn ends_first(work: &UnixStream, program: &UnixStream) -> bool {
    let mut ends = [work, program].map(|stream| PollFd::new(stream, PollFlags::RDHUP));
    // Where the two cannot be waited for, the work is.
    retry_on_intr(|| poll(&mut ends, None)).is_err() || !ends[0].revents().is_empty()
}

/// The last word of what was written for a map.
fn mark(text: &[u8]) -> &[u8] {
    text.rsplit(|&byte| byte == b' ').next().unwrap_or_default()
}

type Part = Zeroizing<Vec<u8>>;

fn carry_out(krbd: &Krbd, verb: &[u8], text: &[u8], (name, secret): (Part, Part)) -> Result<(), BusError> {
    let file = krbd.bus_file(utf8(verb)?);
    if !name.is_empty() {
        let key = CephxKey::decode(&Secret::new(utf8(&secret)?)).map_err(|_| invalid())?;
        sys::add_ceph_key(utf8(&name)?, &key).map_err(|error| BusError(Stage::AddKey, error))?;
    }
    // The kernel has it, and may take for ever.
    drop(secret);
    (krbd.bus.0)(&file, text)
}

fn utf8(part: &[u8]) -> Result<&str, BusError> {
    str::from_utf8(part).map_err(|_| invalid())
}

fn invalid() -> BusError {
    BusError(Stage::Write, io::Error::from_raw_os_error(libc::EINVAL))
}

/// Unmaps what bears this mark.
fn undo(krbd: &Krbd, mark: &[u8]) {
    let mark = str::from_utf8(mark).ok().and_then(|mark| mark.parse::<Origin>().ok());
    if let Some(device) = mark.and_then(|mark| krbd.marked(&mark)) {
        // There is nobody to tell.
        let _ = krbd.unmap(&device, &UnmapOptions::to_undo());
    }
}

/// Leaves everything of the program that started this process: session, terminal, directory, open files. Then serves
/// it; the process ends with that.
pub(super) fn run() -> ! {
    let served = sys::leave_parent(c"krbd-helper").and_then(|()| {
        let stream = UnixStream::from(std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?);
        std::env::set_current_dir(Path::new("/"))?;
        serve(&stream)
    });
    std::process::exit(if served.is_ok() { 0 } else { 1 })
}
