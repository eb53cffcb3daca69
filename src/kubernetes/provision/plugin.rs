//! The two ways in which Kubernetes maps an image.

use crate::address::{MonitorAddresses, Protocol};
use crate::error::{Error, ErrorKind, Result};

/// What maps the image on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Plugin {
    /// The rbd plugin inside Kubernetes, up to its release 1.30.
    #[non_exhaustive]
    Rbd {
        /// The monitors, as `IP:PORT`.
        monitors: Vec<String>,
    },
    /// ceph-csi's driver for rbd, with a volume that it did not make itself (`staticVolume`).
    #[non_exhaustive]
    Csi {
        /// The cluster, as the driver's configuration calls it; by custom its fsid.
        cluster_id: String,
        /// The driver's name.
        driver: String,
    },
}

impl Plugin {
    /// The plugin inside Kubernetes. The kernel speaks protocol v1 with the monitors, so it takes their v1 addresses.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where no monitor has one: the plugin has no way to choose another protocol.
    pub fn rbd(monitors: &MonitorAddresses) -> Result<Self> {
        let addresses = monitors.for_protocol(Protocol::V1).map_err(|error| {
            Error::new(ErrorKind::InvalidInput, "choose monitor addresses for the rbd plugin")
                .with_hint("the rbd plugin cannot speak protocol v2: use ceph-csi with the map option ms_mode")
                .with_source(error)
        })?;
        Ok(Self::Rbd { monitors: addresses.iter().map(ToString::to_string).collect() })
    }

    /// ceph-csi's `rbd.csi.ceph.com`, by the cluster's id in its configuration.
    pub fn csi(cluster_id: impl Into<String>) -> Self {
        Self::Csi { cluster_id: cluster_id.into(), driver: "rbd.csi.ceph.com".into() }
    }

    /// ceph-csi under another name, as Rook has it: `rook-ceph.rbd.csi.ceph.com`.
    pub fn csi_named(driver: impl Into<String>, cluster_id: impl Into<String>) -> Self {
        Self::Csi { cluster_id: cluster_id.into(), driver: driver.into() }
    }
}
