//! Who uses this image? A spec in; the clients that have it open out, and which of them holds its lock.
//!
//!     image_users kube/pvc-1
//!     image_users kube/pvc-1 --json

mod connect;
mod print;

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::process::ExitCode;

use clap::Parser;
use rbd::{ImageInfo, ImageSpec, Locker, Watcher};

#[derive(Parser)]
#[command(about = "Print who uses an image")]
struct Arguments {
    /// [POOL/[NAMESPACE/]]IMAGE
    spec: ImageSpec,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: connect::Connect,
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let cluster = arguments.cluster.connect()?;
    let image = cluster.open_read_only(&arguments.spec)?;
    let info = image.info()?;
    let watchers = image.pool().list_watchers(info.header_object())?;
    let lockers = image.lockers()?;
    if arguments.json {
        let users = serde_json::json!({
            "image": image.to_string(),
            "id": info.id.as_ref().map(|id| id.as_str()),
            "header": info.header_object().as_str(),
            "watchers": watchers,
            "lockers": lockers,
        });
        print::line(users)?;
    } else {
        print_users(&image.to_string(), &info, &watchers, &lockers)?;
    }
    Ok(())
}

fn print_users(image: &str, info: &ImageInfo, watchers: &[Watcher], lockers: &[Locker]) -> io::Result<()> {
    print::line(image)?;
    print::line(format_args!(
        "  block_name_prefix {}, header object {}",
        info.block_name_prefix,
        info.header_object()
    ))?;
    // A client that has opened it twice watches it twice.
    let clients: BTreeSet<u64> = watchers.iter().map(|watcher| watcher.client).collect();
    match clients.len() {
        0 => print::line("  nobody has it open to write (read-only users leave no trace)")?,
        1 => print::line("  1 client has it open:")?,
        many => print::line(format_args!("  {many} clients have it open:"))?,
    }
    for watcher in watchers {
        let holds = lockers.iter().any(|locker| locker.is_alive(std::slice::from_ref(watcher)));
        let lock = if holds { ", holds the lock" } else { "" };
        print::line(format_args!("    client.{} at {}: {}{lock}", watcher.client, watcher.address, watcher.kind()))?;
        if let Some(timeout) = watcher.timeout {
            print::line(format_args!("      its watch ends {} s after its last sign of life", timeout.as_secs()))?;
        }
    }
    for locker in lockers.iter().filter(|locker| !locker.is_alive(watchers)) {
        let Locker { client, address, cookie, .. } = locker;
        print::line(format_args!("  {client} at {address} holds the lock {cookie:?} and is not there"))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    connect::exit(run(&Arguments::parse()))
}
