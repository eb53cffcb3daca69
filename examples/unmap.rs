//! Unmaps devices of the kernel's rbd driver.
//!
//!     unmap /dev/rbd0
//!     unmap kube/pvc-1 --if-several newest
//!     unmap --image-id fb236b8b4567 --fsid 0b4c9e0d-7f0c-4f7c-8a1c-0123456789ab
//!     unmap /dev/rbd0 --force --deadline 30
//!
//! Exit status: 0 when all that was meant is unmapped, 64 for wrong arguments, else the errno, or 1 where there is
//! none.

mod print;
mod program;
mod seconds;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use rbd::attach::Detach;
use rbd::krbd::{IfSeveral, Krbd, Target, UnmapOptions, helper_main};
use rbd::{Details, Fsid, ImageId, ImageSpec, PoolName};

#[derive(Parser)]
#[command(about = "Unmap devices of the kernel's rbd driver")]
struct Arguments {
    /// A device, a partition of it, a link to one, with `/` or `.` in front, or [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
    #[arg(required_unless_present_any = ["id", "image_id"], conflicts_with_all = ["id", "image_id"])]
    target: Option<String>,
    /// By the number in /dev/rbdN
    #[arg(long, conflicts_with = "image_id")]
    id: Option<u32>,
    /// By the image's id
    #[arg(long)]
    image_id: Option<ImageId>,
    /// Only devices of this cluster
    #[arg(long)]
    fsid: Option<Fsid>,
    /// The pool of a spec that names none
    #[arg(long, default_value = "rbd")]
    pool: PoolName,
    /// Even if it is open: what was not written back is lost
    #[arg(long)]
    force: bool,
    /// Which of several devices of one image
    #[arg(long, value_enum, default_value = "refuse")]
    if_several: Several,
    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds::seconds)]
    deadline: Option<Duration>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Several {
    Refuse,
    One,
    All,
    Newest,
}

/// No pool is called `.` or `..`.
fn is_path(target: &str) -> bool {
    ["/", "./", "../"].iter().any(|start| target.starts_with(start))
}

fn target(arguments: &Arguments) -> rbd::Result<Target> {
    let target: Target = match (arguments.id, &arguments.image_id, &arguments.target) {
        (Some(id), ..) => id.into(),
        (None, Some(image_id), _) => image_id.clone().into(),
        (None, None, Some(path)) if is_path(path) => PathBuf::from(path).into(),
        (None, None, spec) => {
            let spec: ImageSpec = spec.as_deref().unwrap_or_default().parse()?;
            spec.with_default_pool(&arguments.pool).into()
        }
    };
    Ok(match arguments.fsid {
        Some(fsid) => target.of_cluster(fsid),
        None => target,
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let mut options = UnmapOptions::new().if_several(match arguments.if_several {
        Several::Refuse => IfSeveral::Refuse,
        Several::One => IfSeveral::One,
        Several::All => IfSeveral::All,
        Several::Newest => IfSeveral::Newest,
    });
    if arguments.force {
        options = options.force();
    }
    let mut krbd = Krbd::new();
    if arguments.deadline.is_some() {
        // The shell is to have its prompt back then, whatever the kernel does.
        krbd = krbd.detached();
    }
    let target = target(arguments)?;
    // One by one, as each is to be reported.
    let all = match arguments.if_several {
        Several::All => krbd.find(target.clone())?,
        _ => Vec::new(),
    };
    let targets = if all.is_empty() { vec![target] } else { all.iter().map(Target::from).collect() };
    let (detach, start, mut status) = (Detach::new(&krbd), Instant::now(), None);
    for (n, target) in (1..=targets.len() as u32).rev().zip(targets) {
        if let Some(deadline) = arguments.deadline {
            // One that stays busy is not to take the time of those behind it.
            options = options.deadline(deadline.saturating_sub(start.elapsed()) / n);
        }
        match detach.unmap(target, &options) {
            Ok(unmapped) => unmapped.iter().try_for_each(|one| print::line(format_args!("unmapped {}", one.device)))?,
            Err(error) => {
                let failed = failed(&error);
                status.get_or_insert(failed);
            }
        }
    }
    Ok(status.unwrap_or(ExitCode::SUCCESS))
}

/// Says why it failed, and what to do.
fn failed(error: &rbd::Error) -> ExitCode {
    let status = program::failed(error);
    match error.details() {
        Details::PendingUnmap(_) => program::say("a helper waits for the kernel, which goes on with it"),
        Details::Devices(_) => program::say("name one of them, or choose with --if-several"),
        Details::Holders { .. } => program::say("`why_busy` with that device says what frees it"),
        Details::Explanation(explanation) => explanation.to_string().lines().for_each(program::say),
        _ => {}
    }
    status
}

fn main() -> ExitCode {
    helper_main();
    run(&program::arguments()).unwrap_or_else(|error| match error.downcast_ref() {
        Some(error) => failed(error),
        None => program::failed(&*error),
    })
}
