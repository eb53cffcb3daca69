//! Disables features of an image, or all that a kernel cannot map.
//!
//!     feature_disable kube/pvc-1 object-map fast-diff
//!     feature_disable kube/pvc-1 exclusive-lock --cascade
//!     feature_disable kube/pvc-1 --for-kernel 0x1bf --dry-run

mod connect;
mod print;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use rbd::feature::{Cascade, FeaturePlan};
use rbd::{Features, ImageSpec};

#[derive(Parser)]
#[command(about = "Disable features of an image")]
struct Arguments {
    /// [POOL/[NAMESPACE/]]IMAGE
    spec: ImageSpec,
    /// Features by name, such as object-map
    #[arg(required_unless_present = "for_kernel", value_parser = features)]
    features: Vec<Features>,
    /// Disable what this kernel cannot map: its mask, as in /sys/bus/rbd/supported_features
    #[arg(long, value_name = "MASK", conflicts_with = "features", value_parser = Features::parse_kernel_mask)]
    for_kernel: Option<Features>,
    /// Disable those that depend on them too
    #[arg(long)]
    cascade: bool,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    cluster: connect::Connect,
}

fn features(text: &str) -> Result<Features, String> {
    match text.parse::<Features>() {
        Ok(features) if features.is_empty() => Err("it names no feature".into()),
        features => features.map_err(|error| error.to_string()),
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let cluster = arguments.cluster.connect()?;
    // A plan needs no more than reading.
    let current = cluster.open_read_only(&arguments.spec)?.features()?;
    let plan = match arguments.for_kernel {
        Some(mask) => FeaturePlan::mappable_by(current, mask)?,
        None => {
            let cascade = if arguments.cascade { Cascade::Yes } else { Cascade::No };
            FeaturePlan::disable(current, arguments.features.iter().copied().collect(), cascade)?
        }
    };
    if !plan.already().is_empty() {
        print::line(format_args!("off already: {}", plan.already()))?;
    }
    print::line(format_args!("plan: {plan}"))?;
    if arguments.dry_run || plan.steps().is_empty() {
        return Ok(());
    }
    let image = cluster.open(&arguments.spec)?;
    for locker in image.lockers()? {
        print::line(format_args!("the lock is held by {}, which must hand it over", locker.address))?;
    }
    // What has begun is carried through, whether it can be told or not.
    let mut told = Ok(());
    image.apply(&plan, |done| {
        if told.is_ok() {
            told = print::line(format_args!("{}: done in {} ms", done.step, done.elapsed.as_millis()));
        }
    })?;
    let features = image.features()?;
    image.close()?;
    told?;
    Ok(print::line(format_args!("features: {features}"))?)
}

fn main() -> ExitCode {
    connect::exit(run(&Arguments::parse()))
}
