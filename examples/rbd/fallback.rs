//! What this program cannot do: another does it, or nobody.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::ceph_arguments::say;

const VARIABLE: &str = "RBD_FALLBACK";

/// Becomes the program that `RBD_FALLBACK` names, with the same arguments; or says what is refused.
pub fn hand_over(what: &str) -> ExitCode {
    match env::var_os(VARIABLE).filter(|program| !program.is_empty()) {
        Some(program) => {
            // Without the variable: it may be this very program.
            let error = Command::new(&program).args(env::args_os().skip(1)).env_remove(VARIABLE).exec();
            say!("rbd: {what}: {VARIABLE}={}: {error}", program.display());
        }
        None => say!("rbd: {what}: not supported by this program; {VARIABLE} can name one that does it"),
    }
    ExitCode::FAILURE
}
