//! Says what on this host keeps a block device busy, and so why `rbd unmap`, `cryptsetup close` or `losetup -d` says
//! "Device or resource busy".
//!
//! ```text
//! why_busy /dev/rbd0
//! why_busy 252:16 --json
//! ```
//!
//! Exit status: 0 when nothing holds the device, 1 on an error, 2 when something holds it, 3 when nothing was found but
//! not everything could be looked at, 64 for wrong arguments.

mod print;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rbd::{DeviceNumber, Holders};

#[derive(Parser)]
#[command(about = "What on this host keeps a block device busy?")]
struct Arguments {
    /// The device's node or a link to it, or its MAJOR:MINOR.
    device: String,
    /// Look for mounts, stacked devices and swap only: faster.
    #[arg(long)]
    mounts_only: bool,
    /// How many seconds it may take.
    #[arg(long, default_value_t = 5.0)]
    deadline: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| {
        let status = if error.use_stderr() { 64 } else { 0 };
        drop(error.print());
        std::process::exit(status);
    });
    match look(&arguments) {
        Ok(holders) if !holders.is_empty() => ExitCode::from(2),
        Ok(holders) if !holders.is_complete() => ExitCode::from(3),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("why_busy: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn look(arguments: &Arguments) -> Result<Holders, Box<dyn std::error::Error>> {
    let search = match arguments.device.parse::<DeviceNumber>() {
        Ok(number) => Holders::of(number),
        Err(_) => Holders::of_node(&arguments.device)?,
    };
    let mut search = search.deadline(Duration::try_from_secs_f64(arguments.deadline)?);
    if arguments.mounts_only {
        search = search.mounts_only();
    }
    let holders = search.run()?;
    if arguments.json {
        print::line(serde_json::to_string_pretty(&holders)?)?;
    } else {
        print::line(&holders)?;
    }
    Ok(holders)
}
