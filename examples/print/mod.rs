//! Standard output and standard error, for every example.

use std::fmt::Display;
use std::io::{Error, ErrorKind, Result, Write, stderr, stdout};

/// Prints a line. That nobody reads it, as behind `| head`, is no failure; that it cannot be written, as on a full
/// disk, is one.
pub fn line(text: impl Display) -> Result<()> {
    line_to_reader(text).map(drop)
}

/// The same; says whether somebody reads on.
pub fn line_to_reader(text: impl Display) -> Result<bool> {
    match writeln!(stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::new(error.kind(), format!("write to standard output: {error}"))),
        Ok(()) => Ok(true),
    }
}

/// Prints a line on the standard error. Where that cannot be written to, nobody hears it, and that is no reason to
/// panic.
pub fn aside(text: impl Display) {
    // In one write, so that programs that run at once do not mix theirs.
    let _ = stderr().write_all(format!("{text}\n").as_bytes());
}
