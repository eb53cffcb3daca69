//! What the programs for a node have in common: arguments, the message of a failure and the exit status.

use std::error::Error;
use std::fmt::Display;
use std::process::{ExitCode, exit};

use clap::Parser;
use clap::error::ContextKind;

/// EX_USAGE of sysexits(3): 2 is ENOENT.
const WRONG_ARGUMENTS: i32 = 64;

/// Reads the arguments, or ends the program with status 64. A wrong value is not repeated: it may be a key, or end the
/// line.
pub fn arguments<T: Parser>() -> T {
    T::try_parse().unwrap_or_else(|error| {
        match (error.get(ContextKind::InvalidArg), error.source()) {
            (Some(argument), Some(cause)) => say(format_args!("{argument}: {cause}")),
            _ => drop(error.print()),
        }
        exit(if error.use_stderr() { WRONG_ARGUMENTS } else { 0 })
    })
}

/// Says something on the standard error, in one line whatever is in it.
pub fn say(what: impl Display) {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let line: String = what.to_string().chars().map(escaped).collect();
    crate::print::aside(format_args!("{}: {line}", env!("CARGO_CRATE_NAME")));
}

/// Says why it failed. The status is the errno, as with the `rbd` program, and 1 where there is none.
pub fn failed(error: &(dyn Error + 'static)) -> ExitCode {
    say(format_args!("{error:#}"));
    let errno = error.downcast_ref().and_then(rbd::Error::errno);
    ExitCode::from(errno.and_then(|errno| errno.try_into().ok()).unwrap_or(1))
}
