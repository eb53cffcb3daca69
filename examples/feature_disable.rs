//! Disables features of an image, or all that a kernel cannot map.
//!
//!     feature_disable kube/pvc-1 object-map fast-diff
//!     feature_disable kube/pvc-1 exclusive-lock --cascade
//!     feature_disable kube/pvc-1 --for-kernel 0x1bf --dry-run

mod connect;

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
    #[arg(required_unless_present = "for_kernel")]
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
        println!("off already: {}", plan.already());
    }
    println!("plan: {plan}");
    if arguments.dry_run || plan.steps().is_empty() {
        return Ok(());
    }
    let image = cluster.open(&arguments.spec)?;
    for owner in image.lock_owners()? {
        println!("the lock is held by {owner}, which is asked to hand it over");
    }
    image.apply(&plan, |done| println!("{}: done in {} ms", done.step, done.elapsed.as_millis()))?;
    println!("features: {}", image.features()?);
    image.close()?;
    Ok(())
}

fn main() -> ExitCode {
    connect::exit(run(&Arguments::parse()))
}
