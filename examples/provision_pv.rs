//! Makes an image, and its pool where it is not there, and prints what Kubernetes needs to use it: Secret,
//! PersistentVolume and claim.
//!
//! ```text
//! provision_pv kube/pvc-1 --size 10G --user kube --kernel-mask 0x1bf
//! provision_pv kube/pvc-1 --size 10G --user kube --plugin rbd --with-key | kubectl create -f -
//! ```
//!
//! Without `--with-key` the key in the Secret is hidden. What was made is said on standard error.

mod connect;
mod print;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use rbd::kubernetes::provision::{AccessMode, ImageVolume, Plugin, Provision};
use rbd::{Cluster, Features, ImageSpec};

#[derive(Parser)]
#[command(about = "Make an image and the manifests of a volume for it")]
struct Arguments {
    /// POOL/[NAMESPACE/]IMAGE
    spec: ImageSpec,
    /// Size in bytes, or with K, M, G or T for their powers of 1024
    #[arg(long, value_parser = parse_size)]
    size: u64,
    /// The user that the nodes map with, without `client.`; it must exist
    #[arg(long)]
    user: String,
    /// What maps the image on the nodes
    #[arg(long, value_enum, default_value_t = Kind::Csi)]
    plugin: Kind,
    /// The cluster's id in ceph-csi's configuration [default: the fsid]
    #[arg(long)]
    cluster_id: Option<String>,
    /// The name of the volume and of its claim [default: the image's]
    #[arg(long)]
    name: Option<String>,
    /// The claim's namespace
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Who may use it
    #[arg(long, value_enum, default_value_t = Access::Once)]
    access: Access,
    /// A block device, without a file system
    #[arg(long)]
    block: bool,
    /// The number of placement groups of a new pool
    #[arg(long)]
    pg_num: Option<u32>,
    /// Only features that the nodes' kernel has: the content of /sys/bus/rbd/supported_features
    #[arg(long, value_parser = Features::parse_kernel_mask)]
    kernel_mask: Option<Features>,
    /// Make the image with all features and disable those that the kernel lacks afterwards
    #[arg(long, requires = "kernel_mask")]
    disable_afterwards: bool,
    /// Print the key
    #[arg(long)]
    with_key: bool,
    #[command(flatten)]
    cluster: connect::Connect,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// ceph-csi
    Csi,
    /// The plugin inside Kubernetes, up to 1.30
    Rbd,
}

#[derive(Clone, Copy, ValueEnum)]
enum Access {
    /// ReadWriteOnce
    Once,
    /// ReadOnlyMany
    Readers,
    /// ReadWriteMany, with --block
    Many,
    /// ReadWriteOncePod
    OncePod,
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let spec = &arguments.spec;
    let mut volume =
        ImageVolume::new(spec, arguments.size)?.namespace(&arguments.namespace)?.access_mode(match arguments.access {
            Access::Once => AccessMode::ReadWriteOnce,
            Access::Readers => AccessMode::ReadOnlyMany,
            Access::Many => AccessMode::ReadWriteMany,
            Access::OncePod => AccessMode::ReadWriteOncePod,
        });
    if let Some(name) = &arguments.name {
        volume = volume.name(name)?;
    }
    if arguments.block {
        volume = volume.block();
    }
    let cluster = arguments.cluster.connect()?;
    let key = cluster.auth_key(&format!("client.{}", arguments.user))?;
    let plugin = arguments.plugin(&cluster)?;
    // Whatever is wrong with it shows before anything is made.
    volume.manifests(&plugin, &arguments.user, &key)?;

    let made = arguments.provision().run(&cluster)?;
    if made.pool_created {
        print::aside(format_args!("made pool {}", spec.pool().map_or("", |pool| pool.as_str())));
    }
    print::aside(format_args!("made image {spec} with {}", made.features));
    if !made.disabled.is_empty() {
        print::aside(format_args!("disabled {}", made.disabled));
    }
    let manifests = volume.features(made.features).manifests(&plugin, &arguments.user, &key)?;
    if arguments.with_key {
        print::line(manifests.to_yaml_with_key()?.trim_end())?;
    } else {
        print::line(manifests)?;
        print::aside("the key is hidden; --with-key prints it");
    }
    Ok(())
}

impl Arguments {
    fn plugin(&self, cluster: &Cluster) -> rbd::Result<Plugin> {
        match (self.plugin, &self.cluster_id) {
            (Kind::Rbd, _) => Plugin::rbd(&cluster.monitors()?),
            (Kind::Csi, Some(id)) => Ok(Plugin::csi(id)),
            (Kind::Csi, None) => Ok(Plugin::csi(cluster.fsid()?.to_string())),
        }
    }

    fn provision(&self) -> Provision {
        let mut provision = Provision::new(&self.spec, self.size);
        if let Some(number) = self.pg_num {
            provision = provision.pg_num(number);
        }
        match self.kernel_mask {
            Some(mask) if self.disable_afterwards => provision.disabled_for_kernel(mask),
            Some(mask) => provision.for_kernel(mask),
            None => provision,
        }
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let number: u64 = number.parse().map_err(|_| "it is no number")?;
    number.checked_mul(1 << shift).ok_or_else(|| "it is too large".to_owned())
}

fn main() -> ExitCode {
    connect::exit(run(&Arguments::parse()))
}
