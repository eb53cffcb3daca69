//! Prints who watches an image's header object, or any object: what `rados listwatchers` prints, and more.
//!
//!     list_watchers kube/pvc-1
//!     list_watchers --object kube/rbd_header.fb236b8b4567

mod connect;
mod print;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rbd::{ImageSpec, PoolName};

#[derive(Parser)]
#[command(about = "Print who watches an image, or any object of a pool")]
struct Arguments {
    /// [POOL/[NAMESPACE/]]IMAGE
    #[arg(required_unless_present = "object")]
    spec: Option<ImageSpec>,
    /// Any object, as POOL/OBJECT
    #[arg(long, conflicts_with = "spec", value_name = "POOL/OBJECT", value_parser = pool_and_object)]
    object: Option<(PoolName, String)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: connect::Connect,
}

fn pool_and_object(text: &str) -> Result<(PoolName, String), String> {
    let (pool, object) = text.split_once('/').ok_or("it is POOL/OBJECT")?;
    Ok((PoolName::new(pool).map_err(|error| error.to_string())?, object.to_owned()))
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let cluster = arguments.cluster.connect()?;
    let (pool, object) = match (&arguments.object, &arguments.spec) {
        (Some((pool, object)), _) => (cluster.pool(pool.clone())?, object.clone()),
        (None, Some(spec)) => {
            let image = cluster.open_read_only(spec)?;
            (image.pool().clone(), image.header_object()?.to_string())
        }
        (None, None) => return Ok(()),
    };
    let watchers = pool.list_watchers(&object)?;
    if arguments.json {
        print::line(serde_json::json!({ "object": object, "watchers": watchers }))?;
        return Ok(());
    }
    for watcher in &watchers {
        let lasts = |timeout: Duration| format!(", lasts {} s once the client is silent", timeout.as_secs());
        let lasts = watcher.timeout.map(lasts).unwrap_or_default();
        print::line(format_args!("watcher={watcher} ({}{lasts})", watcher.kind()))?;
    }
    if watchers.is_empty() {
        print::line(format_args!("nobody watches {pool}/{object}"))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    connect::exit(run(&Arguments::parse()))
}
