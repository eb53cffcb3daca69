//! Who uses this image? A spec in; the clients that have it open out, and which of them holds its lock.
//!
//!     image_users kube/pvc-1
//!     image_users kube/pvc-1 --json

mod connect;

use std::error::Error;
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
        println!("{users}");
    } else {
        print_users(&image.to_string(), &info, &watchers, &lockers);
    }
    Ok(())
}

fn print_users(image: &str, info: &ImageInfo, watchers: &[Watcher], lockers: &[Locker]) {
    println!("{image}");
    println!("  block_name_prefix {}, header object {}", info.block_name_prefix, info.header_object());
    match watchers {
        [] => println!("  nobody has it open to write (read-only users leave no trace)"),
        [_] => println!("  1 client has it open:"),
        _ => println!("  {} clients have it open:", watchers.len()),
    }
    for watcher in watchers {
        let holds = lockers.iter().any(|locker| locker.is_alive(std::slice::from_ref(watcher)));
        let lock = if holds { ", holds the lock" } else { "" };
        println!("    client.{} at {}: {}{lock}", watcher.client, watcher.address, watcher.kind());
        if let Some(timeout) = watcher.timeout {
            println!("      its watch ends {} s after its last sign of life", timeout.as_secs());
        }
    }
    for locker in lockers.iter().filter(|locker| !locker.is_alive(watchers)) {
        println!("  {} at {} holds the lock {:?} and is not there", locker.client, locker.address, locker.cookie);
    }
}

fn main() -> ExitCode {
    connect::exit(run(&Arguments::parse()))
}
