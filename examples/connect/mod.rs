//! What every example takes to find its cluster.

use std::path::PathBuf;

use rbd::{Cluster, Result};

/// Where the cluster is and who asks.
#[derive(clap::Args)]
pub struct Connect {
    /// Configuration file [default: the first of Ceph's usual ones]
    #[arg(long, short = 'c', value_name = "FILE", env = "CEPH_CONF")]
    conf: Option<PathBuf>,
    /// User, without `client.`
    #[arg(long, default_value = "admin")]
    id: String,
    /// Monitors, as `mon_host` in a configuration file
    #[arg(long, short = 'm')]
    mon_host: Option<String>,
    /// Keyring with the user's key
    #[arg(long, short = 'k', value_name = "FILE")]
    keyring: Option<PathBuf>,
}

impl Connect {
    /// Connects.
    pub fn connect(&self) -> Result<Cluster> {
        let mut builder = Cluster::builder().user(&self.id);
        if let Some(conf) = &self.conf {
            builder = builder.config_file(conf);
        }
        if let Some(addresses) = &self.mon_host {
            builder = builder.mon_host(addresses);
        }
        if let Some(keyring) = &self.keyring {
            builder = builder.keyring(keyring);
        }
        builder.connect()
    }
}

/// Ends the program: with one line and status 1 where it failed.
pub fn exit(result: Result<(), Box<dyn std::error::Error>>) -> std::process::ExitCode {
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            crate::print::aside(format_args!("error: {error:#}"));
            std::process::ExitCode::FAILURE
        }
    }
}
