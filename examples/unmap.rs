//! Unmaps devices of the kernel's rbd driver.
//!
//!     unmap /dev/rbd0
//!     unmap kube/pvc-1 --if-several newest
//!     unmap --image-id fb236b8b4567 --fsid 0b4c9e0d-7f0c-4f7c-8a1c-0123456789ab
//!     unmap /dev/rbd0 --force --deadline 30

mod print;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use rbd::krbd::{IfSeveral, Krbd, Target, UnmapOptions, helper_main};
use rbd::{Details, Fsid, ImageId, ImageSpec, PoolName};

#[derive(Parser)]
#[command(about = "Unmap devices of the kernel's rbd driver")]
struct Arguments {
    /// A device, a partition of it, a link to one, or [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
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
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Several {
    Refuse,
    One,
    All,
    Newest,
}

fn target(arguments: &Arguments) -> rbd::Result<Target> {
    let target: Target = match (arguments.id, &arguments.image_id, &arguments.target) {
        (Some(id), ..) => id.into(),
        (None, Some(image_id), _) => image_id.clone().into(),
        (None, None, Some(path)) if path.starts_with('/') => PathBuf::from(path).into(),
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

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
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
    if let Some(seconds) = arguments.deadline {
        options = options.deadline(Duration::from_secs(seconds));
        // The shell is to have its prompt back then, whatever the kernel does.
        krbd = krbd.detached();
    }
    for unmapped in krbd.unmap(target(arguments)?, &options)? {
        print::line(format_args!("unmapped {}", unmapped.device))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    helper_main();
    let Err(error) = run(&Arguments::parse()) else { return ExitCode::SUCCESS };
    eprintln!("unmap: {error:#}");
    let error = error.downcast_ref::<rbd::Error>();
    if let Some(Details::PendingUnmap(_)) = error.map(rbd::Error::details) {
        eprintln!("unmap: a helper waits for the kernel, which goes on with it");
    }
    ExitCode::from(error.and_then(rbd::Error::errno).and_then(|errno| errno.try_into().ok()).unwrap_or(1))
}
