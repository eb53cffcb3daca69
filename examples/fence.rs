//! Evicts a client of an image whose node is dead, frozen or cut off, so that another can use the image.
//!
//! ```text
//! image_users kube/pvc-1 --ask               # who is it, and does it answer?
//! fence kube/pvc-1 client.4235 --dry-run     # whom would it hit?
//! fence kube/pvc-1 client.4235
//! fence kube/pvc-1 192.0.2.10:0/2359070641   # by address, seen or not
//! fence --undo 192.0.2.10:0/2359070641       # once that client has ended
//! ```
//!
//! A client that answers is refused, and so is one on this host, unless the options say otherwise.

mod connect;
mod print;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rbd::usage::{Fence, Survey, Suspect, unfence};
use rbd::{Cluster, EntityAddress, ImageSpec, parse_client_id};

#[derive(Parser)]
#[command(about = "Evict a client of an image whose node is dead")]
struct Arguments {
    /// [POOL/[NAMESPACE/]]IMAGE
    #[arg(required_unless_present = "undo")]
    spec: Option<ImageSpec>,
    /// client.ID, as image_users names it, or its address IP:0/NONCE
    #[arg(required_unless_present = "undo")]
    client: Option<String>,
    /// Only say whom it would hit
    #[arg(long)]
    dry_run: bool,
    /// Also a client that is alive: it loses what it has not written yet
    #[arg(long)]
    even_if_alive: bool,
    /// Also a client on this host
    #[arg(long)]
    even_if_local: bool,
    /// For how many hours the cluster refuses it
    #[arg(long, default_value_t = 24)]
    hours: u32,
    /// How many seconds to wait for a sign of life
    #[arg(long, default_value_t = 5)]
    ask: u32,
    /// Let the cluster serve this address again, once its client has ended
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["spec", "client"])]
    undo: Option<EntityAddress>,
    #[command(flatten)]
    cluster: connect::Connect,
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let cluster = arguments.cluster.connect()?;
    if let Some(address) = &arguments.undo {
        return Ok(unfence(&cluster, address)?);
    }
    let (Some(spec), Some(client)) = (&arguments.spec, &arguments.client) else {
        return Err("it takes an image and a client".into());
    };
    let survey = Survey::new(&cluster).ask_watchers(Duration::from_secs(arguments.ask.into())).without_holders();
    let fence = Fence::new(&cluster, suspect(&cluster, spec, client)?).survey(survey);
    let mut fence = fence.expiry(Duration::from_secs(u64::from(arguments.hours) * 60 * 60));
    if arguments.even_if_alive {
        fence = fence.even_if_alive();
    }
    if arguments.even_if_local {
        fence = fence.even_if_local();
    }
    if arguments.dry_run {
        print::line(fence.plan(spec)?)?
    } else {
        print::line(fence.run(spec)?)?
    }
    Ok(())
}

/// Whom the argument means: its watch, or else its lock.
fn suspect(cluster: &Cluster, spec: &ImageSpec, client: &str) -> Result<Suspect, Box<dyn Error>> {
    let Ok(id) = parse_client_id(client) else {
        return Ok(Suspect::Address(client.parse()?));
    };
    let usage = Survey::new(cluster).without_holders().of(spec)?;
    let found = usage.clients.into_iter().find(|client| client.id == Some(id));
    let found = found.and_then(|found| match (found.watches.first(), found.locks.into_iter().next()) {
        (Some(watch), _) => Some(Suspect::Watcher(*watch)),
        (None, lock) => lock.map(Suspect::Locker),
    });
    found.ok_or_else(|| format!("{client} neither watches {spec} nor holds its lock").into())
}

fn main() -> ExitCode {
    connect::exit(run(&Arguments::parse()))
}
