//! Says what on this host keeps a block device busy, and so why `rbd unmap`, `cryptsetup close` or `losetup -d` says
//! "Device or resource busy", and what frees it; with `--release`, frees it.
//!
//! ```text
//! why_busy /dev/rbd0
//! why_busy 252:16 --json
//! why_busy /dev/rbd0 --release                  # what is safe, and unmap
//! why_busy /dev/rbd0 --release --allow-lossy    # also unmount lazily what is busy
//! why_busy /dev/rbd0 --release --force          # and in the end unmap by force
//! ```
//!
//! Exit status: 0 when nothing holds the device (any more), 1 on an error, 2 when something holds it, 3 when nothing
//! was found but not everything could be looked at, 64 for wrong arguments.

mod colour;
mod print;
mod program;
mod seconds;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rbd::krbd::{Device, Krbd};
use rbd::remedy::{self, Policy, Release, remedies};
use rbd::{DeviceNumber, ErrorKind, Holders};

#[derive(Parser)]
#[command(about = "What on this host keeps a block device busy, and what frees it?")]
struct Arguments {
    /// The device's node or a link to it, or its MAJOR:MINOR.
    device: String,
    /// Look for mounts, stacked devices and swap only: faster.
    #[arg(long, conflicts_with = "release")]
    mounts_only: bool,
    /// Do what frees it, and unmap it if it is an rbd device: only what is safe, unless more is allowed.
    #[arg(long)]
    release: bool,
    /// Also unmount lazily what is busy.
    #[arg(long, requires = "release")]
    allow_lossy: bool,
    /// Unmap by force if it is still busy in the end: what was not written back is lost.
    #[arg(long, requires = "release")]
    force: bool,
    /// How many seconds it may take: 5, and 60 with --release.
    #[arg(long, value_name = "SECONDS", value_parser = seconds::seconds)]
    deadline: Option<Duration>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments: Arguments = program::arguments();
    let done = if arguments.release { release(&arguments) } else { look(&arguments) };
    done.unwrap_or_else(|error| {
        // 2 and 3 say what was found.
        program::failed(&*error);
        ExitCode::FAILURE
    })
}

fn look(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let mut search = Holders::of(number(arguments)?);
    if let Some(deadline) = arguments.deadline {
        search = search.deadline(deadline);
    }
    if arguments.mounts_only {
        search = search.mounts_only();
    }
    let holders = search.run()?;
    let remedies = remedies(&holders, mapping(holders.device())?.as_ref());
    if arguments.json {
        let mut json = serde_json::to_value(&holders)?;
        json["remedies"] = serde_json::to_value(&remedies)?;
        print::line(serde_json::to_string_pretty(&json)?)?;
    } else if holders.is_empty() {
        print::line(in_colour(&holders.to_string()))?;
    } else {
        print::line(in_colour(&format!("{holders}\n{}", remedy::tree(&remedies))))?;
    }
    Ok(match (holders.is_empty(), holders.is_complete()) {
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::from(3),
        (false, _) => ExitCode::from(2),
    })
}

fn release(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let mut policy = Policy::new();
    if arguments.allow_lossy {
        policy = policy.allow_lossy();
    }
    if arguments.force {
        policy = policy.force();
    }
    if let Some(deadline) = arguments.deadline {
        policy = policy.deadline(deadline);
    }
    let release = Release::new(policy);
    let number = number(arguments)?;
    let released = match mapping(number)? {
        Some(device) => release.run(&device)?,
        None => release.free(number)?,
    };
    if arguments.json {
        print::line(serde_json::to_string_pretty(&released)?)?;
    } else {
        print::line(in_colour(&released.to_string()))?;
    }
    Ok(if released.is_free() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn number(arguments: &Arguments) -> rbd::Result<DeviceNumber> {
    arguments.device.parse().or_else(|_| Ok(Holders::of_node(&arguments.device)?.device()))
}

/// The mapping, if it is an rbd device; a partition is freed and not unmapped.
fn mapping(number: DeviceNumber) -> rbd::Result<Option<Device>> {
    match Krbd::new().list() {
        Ok(devices) => Ok(devices.into_iter().find(|device| device.number == number)),
        Err(error) if error.kind() == ErrorKind::ModuleNotLoaded => Ok(None),
        Err(error) => Err(error),
    }
}

/// Headings in bold; what frees it in green where it is safe, yellow where it is for a person, and red where something
/// is lost; what failed in red.
fn in_colour(text: &str) -> String {
    let (mut is_remedy, mut style) = (false, None);
    colour::tree(text, move |line| {
        if !line.starts_with(['│', '├', '└', ' ']) {
            is_remedy = line.starts_with("what ");
            style = None;
            return Some(colour::BOLD);
        }
        // The rows that follow the first of a remedy are like it.
        if let Some(first) = line.strip_prefix("├─ ").or_else(|| line.strip_prefix("└─ "))
            && is_remedy
        {
            style = Some(match first {
                _ if first.starts_with("lossy") || first.contains(": failed, ") => colour::RED,
                _ if first.starts_with("for a person") || first.starts_with("by hand") => colour::YELLOW,
                _ if first.contains(": not ") || first.contains(": left to ") => colour::YELLOW,
                _ => colour::GREEN,
            });
        }
        style
    })
}
