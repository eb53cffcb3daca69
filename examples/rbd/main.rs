//! The `rbd` program on this library alone, as far as nodes need it: `device map|unmap|list`, `info`, `status`,
//! `feature disable|enable`, with the same arguments, output, messages and exit codes.
//!
//!     rbd info kube/pvc-1 --format json
//!     RBD_FALLBACK=/usr/bin/rbd rbd snap ls kube/pvc-1
//!
//! Everything else it refuses by name, or hands to the program that `RBD_FALLBACK` names: help and `--version`, other
//! commands and device types, arguments that are no UTF-8, and an option of Ceph's with a value that is none of its,
//! which the original drops.
//!
//! What differs:
//!
//! - Log lines of librados and librbd, which the original has on its standard error, are not printed, nor what it has on
//!   its standard output of a monitor's name that nobody knows.
//! - Why the kernel's module cannot be loaded is said in other words, and udev is not asked for anything.
//! - Values of map options that the kernel would refuse are refused before the image is looked for, and `fsid` is taken
//!   with its dashes only. A name with blanks, which the kernel would take apart, is refused for that reason, and so is
//!   a snapshot `-`, for which it would take the image itself.
//! - Where the original ends by an assertion, this program does by a message.
//! - A key from the standard input (`-K -`) is read before another program is handed anything.

mod arguments;
#[path = "../ceph_arguments/mod.rs"]
mod ceph_arguments;
mod device;
mod fallback;
mod feature;
mod format;
mod info;
mod map;
mod spec;
mod status;
mod xml;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use ceph_arguments::{CephArguments, Stop, say};
use rbd::Cluster;
use rbd::rados::ClusterBuilder;

const COMMANDS: &[&Command] = &[
    &info::COMMAND,
    &status::COMMAND,
    &feature::DISABLE,
    &feature::ENABLE,
    &device::LIST,
    &map::COMMAND,
    &device::UNMAP,
];

fn run(given: &[String]) -> Result<(), Stop> {
    let mut ceph = CephArguments::take(given)?;
    let (command, name) = arguments::find(COMMANDS, &ceph.rest)?;
    ceph.choose_config_file()?;
    let arguments = Arguments::parse(command, name, &ceph.rest)?;
    let done = (command.run)(&arguments, &ceph.builder);

    // The original says so after all it does.
    let is_user_in = |arguments: &[String]| arguments.iter().any(|argument| argument == "--user");
    match done {
        refused @ Err(Stop::Refused(_)) => refused,
        done if !is_user_in(given) || is_user_in(&ceph.rest) => done,
        Err(Stop::Exit(code, message)) => Err(Stop::Exit(code, format!("{message}\n{USER_IS_DEPRECATED}"))),
        Ok(()) => {
            say!("{USER_IS_DEPRECATED}");
            Ok(())
        }
    }
}

const USER_IS_DEPRECATED: &str = "rbd: --user is deprecated, use --id";

fn connect(builder: &ClusterBuilder) -> Result<Cluster, Stop> {
    ceph_arguments::connect(builder, |errno| Stop::Exit(errno, "rbd: couldn't connect to the cluster!".into()))
}

fn main() -> ExitCode {
    let given: Result<Vec<_>, _> = std::env::args_os().skip(1).map(|argument| argument.into_string()).collect();
    let done = match &given {
        Ok(given) => run(given),
        Err(argument) => Err(Stop::Refused(format!("{} (no UTF-8)", argument.display()))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Exit(code, message)) => {
            say!("{message}");
            // The system keeps the low eight bits.
            ExitCode::from(code as u8)
        }
        Err(Stop::Refused(what)) => fallback::hand_over(&what),
    }
}
