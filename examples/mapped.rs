//! Lists what is mapped through the kernel's rbd driver on this host.
//!
//!     mapped
//!     mapped kube/pvc-1 --fsid 0b4c9e0d-7f0c-4f7c-8a1c-0123456789ab
//!     mapped --json
//!
//! Exit status: 0, 64 for wrong arguments, else the errno, or 1 where there is none.

mod print;
mod program;

use std::error::Error;
use std::io;
use std::process::ExitCode;

use clap::Parser;
use rbd::krbd::{Device, Krbd, Target};
use rbd::{Fsid, ImageSpec, PoolName};

#[derive(Parser)]
#[command(about = "List what is mapped through the kernel")]
struct Arguments {
    /// Only mappings of [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
    spec: Option<ImageSpec>,
    /// The pool of a spec that names none
    #[arg(long, default_value = "rbd")]
    pool: PoolName,
    /// Only mappings from this cluster
    #[arg(long)]
    fsid: Option<Fsid>,
    /// All that the kernel shows, as JSON
    #[arg(long)]
    json: bool,
}

fn find(arguments: &Arguments) -> rbd::Result<Vec<Device>> {
    let krbd = Krbd::new();
    let mut devices = match &arguments.spec {
        Some(spec) => krbd.find(Target::from(spec.clone().with_default_pool(&arguments.pool)))?,
        None => krbd.list()?,
    };
    devices.retain(|device| arguments.fsid.is_none() || device.fsid == arguments.fsid);
    Ok(devices)
}

/// Columns as wide as their widest cell, two blanks apart.
fn print_table(devices: &[Device]) -> io::Result<()> {
    let header = ["id", "device", "image", "image id", "size", "ro", "client"].map(str::to_owned);
    let rows = devices.iter().map(|device| {
        let shown = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
        [
            device.id.to_string(),
            device.node.display().to_string(),
            shown(device.spec().map(|spec| spec.to_string())),
            shown(device.image_id.as_ref().map(ToString::to_string)),
            format!("{} MiB", device.size >> 20),
            shown(device.read_only.map(|ro| if ro { "ro" } else { "rw" }.to_owned())),
            shown(device.client_address.map(|address| address.to_string())),
        ]
    });
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    for row in &rows {
        let cells = row.iter().enumerate().map(|(n, cell)| {
            let width = rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
            format!("{cell:width$}")
        });
        print::line(cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let devices = find(arguments)?;
    if arguments.json {
        print::line(serde_json::to_string_pretty(&devices)?)?;
    } else if !devices.is_empty() {
        print_table(&devices)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&program::arguments()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => program::failed(&*error),
    }
}
