//! Maps an image through the kernel's rbd driver and prints the device, without any Ceph library.
//!
//!     map kube/pvc-1
//!     map kube/pvc-1@before --conf /etc/ceph/prod.conf --id kube -o queue_depth=64
//!     map kube/pvc-1 --mon-host 192.0.2.1,192.0.2.2 --keyfile /run/secrets/kube --deadline 30
//!
//! Exit status: 0 when it is mapped, 64 for wrong arguments, else the errno, or 1 where there is none.

mod print;
mod program;
mod seconds;

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rbd::address::MonitorAddresses;
use rbd::attach::KernelLog;
use rbd::config::Config;
use rbd::krbd::{Credentials, Device, Krbd, MapOptions, MapRequest, NodePolicy, Stage, helper_main};
use rbd::{Details, ImageSpec, PoolName, Secret};

#[derive(Parser)]
#[command(about = "Map an image through the kernel")]
struct Arguments {
    /// [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
    spec: ImageSpec,
    /// The pool of a spec that names none
    #[arg(long, default_value = "rbd")]
    pool: PoolName,
    /// The user, without `client.`
    #[arg(long = "id", default_value = "admin")]
    user: String,
    /// Where the monitors and the keyring are looked up
    #[arg(long, short, env = "CEPH_CONF", default_value = "/etc/ceph/ceph.conf")]
    conf: PathBuf,
    /// These monitors, not those of the configuration, which is then read for the key only, if at all
    #[arg(long, short = 'm')]
    mon_host: Option<MonitorAddresses>,
    /// The key from this keyring
    #[arg(long, short)]
    keyring: Option<PathBuf>,
    /// The key from this file, which has nothing else
    #[arg(long, conflicts_with = "keyring")]
    keyfile: Option<PathBuf>,
    /// Map options as for `rbd map`; may be given more than once
    #[arg(long, short, value_name = "OPTIONS")]
    options: Vec<MapOptions>,
    /// Map read-only
    #[arg(long)]
    read_only: bool,
    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds::seconds)]
    deadline: Option<Duration>,
    /// Make the device node if nobody else does
    #[arg(long)]
    make_node: bool,
    /// Load the kernel module if it is not there
    #[arg(long)]
    load_module: bool,
}

fn request(arguments: &Arguments) -> Result<MapRequest, Box<dyn Error>> {
    let needs_config = arguments.mon_host.is_none() || arguments.keyring.is_none() && arguments.keyfile.is_none();
    let config = match Config::read(&arguments.conf) {
        Err(error) if needs_config => return Err(error.into()),
        Err(_) => Config::parse("")?,
        Ok(config) => config,
    };
    let config = config.user(&arguments.user);
    let monitors = match &arguments.mon_host {
        Some(monitors) => monitors.clone(),
        None => config.monitors()?,
    };
    let credentials = match (&arguments.keyring, &arguments.keyfile) {
        (Some(keyring), _) => config.credentials_in(keyring)?,
        (None, Some(path)) => {
            let key = fs::read_to_string(path).map_err(|error| format!("read key file {}: {error}", path.display()))?;
            Credentials::new(&arguments.user, Secret::new(key))
        }
        (None, None) => config.credentials()?,
    };
    // The last of an option counts, as in one string.
    let mut options = arguments.options.iter().rev().fold(MapOptions::new(), |all, earlier| all.or(earlier));
    if arguments.read_only {
        options = options.read_only();
    }
    let spec = arguments.spec.clone().with_default_pool(&arguments.pool);
    let mut request = MapRequest::new(monitors, credentials, spec).options(options);
    if let Some(deadline) = arguments.deadline {
        request = request.deadline(deadline);
    }
    if arguments.make_node {
        request = request.node(NodePolicy::Create(Duration::from_secs(1)));
    }
    Ok(request)
}

/// What goes on is to be undone, unless it completed just now.
fn completed(error: &rbd::Error) -> Option<Device> {
    let Details::PendingMap(pending) = error.details() else { return None };
    if pending.discard() { None } else { pending.wait(None)?.ok() }
}

fn map(arguments: &Arguments) -> Result<Device, Box<dyn Error>> {
    // The shell is to have its prompt back when the deadline is over, whatever the kernel does.
    let krbd = match arguments.deadline {
        Some(_) => Krbd::new().detached(),
        None => Krbd::new(),
    };
    if arguments.load_module {
        krbd.load_module()?;
    }
    let mapped = krbd.map(&request(arguments)?);
    Ok(mapped.or_else(|error| completed(&error).ok_or(error))?)
}

/// Says why it failed, and what belongs to that.
fn failed(error: Box<dyn Error>, log: KernelLog) -> ExitCode {
    let status = program::failed(&*error);
    let error = error.downcast_ref::<rbd::Error>();
    match error.map(rbd::Error::details) {
        Some(Details::PendingMap(_)) => program::say("it is given up; if it completes all the same, it is unmapped"),
        Some(Details::Devices(devices)) => devices.iter().for_each(|d| program::say(format_args!("mapped: {d}"))),
        _ => {}
    }
    if error.is_some_and(|error| error.stage() == Some(Stage::Write)) {
        let lines = log.lines().into_iter();
        lines.for_each(|line| program::say(format_args!("the kernel, perhaps of another map: {line}")));
    }
    status
}

fn main() -> ExitCode {
    helper_main();
    let arguments = program::arguments();
    let log = KernelLog::from_now();
    match map(&arguments) {
        Ok(device) => match print::line(device.node.display()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                program::say(format_args!("{device} is mapped; {error}"));
                ExitCode::FAILURE
            }
        },
        Err(error) => failed(error, log),
    }
}
