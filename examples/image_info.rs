//! Prints what `rbd info` prints.
//!
//!     image_info kube/pvc-1
//!     image_info kube/pvc-1@monday --json

mod connect;
mod print;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use rbd::ImageSpec;

#[derive(Parser)]
#[command(about = "Print what `rbd info` prints of an image or a snapshot")]
struct Arguments {
    /// [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
    spec: ImageSpec,
    /// Print JSON, with the keys of `rbd info --format json`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: connect::Connect,
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let cluster = arguments.cluster.connect()?;
    let info = cluster.open_read_only(&arguments.spec)?.info()?;
    if arguments.json {
        print::line(serde_json::to_string(&info)?)?;
    } else {
        print::line(info)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    connect::exit(run(&Arguments::parse()))
}
