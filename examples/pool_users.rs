//! Which images of a pool are in use, and by whom; or which of them a node uses.
//!
//! ```text
//! pool_users kube
//! pool_users kube --node 192.0.2.10
//! pool_users kube/tenant --locks
//! ```

mod connect;
mod print;

use std::error::Error;
use std::net::IpAddr;
use std::process::ExitCode;

use clap::Parser;
use rbd::usage::{Client, ImageUsage};
use rbd::{NamespaceName, PoolName, Usage};

#[derive(Parser)]
#[command(about = "Which images of a pool are in use, and by whom?")]
struct Arguments {
    /// POOL[/NAMESPACE]
    pool: String,
    /// Only the images that a client at this address uses
    #[arg(long, value_name = "ADDRESS")]
    node: Option<IpAddr>,
    /// Ask for locks too
    #[arg(long)]
    locks: bool,
    #[command(flatten)]
    cluster: connect::Connect,
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let (pool, namespace) = match arguments.pool.split_once('/') {
        Some((pool, namespace)) => (PoolName::new(pool)?, Some(NamespaceName::new(namespace)?)),
        None => (PoolName::new(arguments.pool.as_str())?, None),
    };
    let pool = arguments.cluster.connect()?.pool(pool)?.in_namespace(namespace.as_ref())?.without_deadline();
    let mut scan = Usage::of_pool(&pool);
    if arguments.locks {
        scan = scan.with_locks();
    }
    for unseen in scan.unseen() {
        print::aside(format_args!("not known: {unseen}"));
    }
    match arguments.node {
        Some(node) => scan.of_node(node).try_for_each(print_image),
        None => scan.try_for_each(print_image),
    }
}

/// A line for each client; nothing for an image that nobody uses, or that was removed meanwhile.
fn print_image(usage: rbd::Result<ImageUsage>) -> Result<(), Box<dyn Error>> {
    let ImageUsage { image, clients, .. } = usage?;
    for client in clients.unwrap_or_default() {
        let lock = if client.locks.is_empty() { "" } else { ", holds a lock" };
        let Client { kind, access, place, .. } = &client;
        print::line(format_args!("{}  {client}, {place}, {kind}, {access}{lock}", image.name))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    connect::exit(run(&Arguments::parse()))
}
