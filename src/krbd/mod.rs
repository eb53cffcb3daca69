//! Map and unmap images through the kernel's own rbd driver, without any Ceph library.
//!
//! [`Krbd`] is the way in. It writes to the rbd bus in `/sys` and reads what the kernel shows there: no child process,
//! no libudev, no netlink socket, so that it works in containers and in other network namespaces as well. It knows no
//! cluster: a [`MapRequest`] says which monitors, which user and which image, and a failure is the kernel's errno with
//! the [`Stage`] at which it came.
//!
//! ```no_run
//! use rbd::krbd::{Credentials, Krbd, MapOptions, MapRequest, UnmapOptions};
//!
//! let krbd = Krbd::new();
//! let monitors = "192.0.2.1,192.0.2.2".parse()?;
//! let credentials = Credentials::new("admin", rbd::Secret::new(std::fs::read_to_string("admin.secret")?));
//! let request = MapRequest::new(monitors, credentials, "kube/pvc-1".parse()?).options(MapOptions::new().read_only());
//! let device = krbd.map(&request)?;
//! println!("{}", device.node.display());
//! krbd.unmap(&device, &UnmapOptions::new())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Waiting
//!
//! The kernel can hold a write to the bus for a long time: while it looks for the monitors, waits for a lock, or for an
//! OSD. With a deadline the write is therefore done on a thread of its own: the caller is free when it has passed, and
//! gets a [`Pending`] for what goes on. It does not free the process: one whose thread waits in the kernel for an unmap
//! does not end, SIGKILL or not, until the cluster answers or the map option `osd_request_timeout` has passed.
//! [`Krbd::detached`] has a helper process wait in its place.
//!
//! While the kernel looks for the monitors of one map, all other maps of the host wait (`rbd_get_client`), and are not
//! ended by SIGKILL either. A map that goes on after its deadline holds up the others for as long as `mount_timeout`
//! says, a minute unless it is set, or until its process ends; one that was detached ends with the program that asked
//! for it.
//!
//! # Privilege
//!
//! Listing needs none, except for what was written at the map ([`Device::config`]). Mapping and unmapping need
//! CAP_SYS_ADMIN in the initial user namespace and a writable `/sys`; [`Krbd::preflight`] looks.

mod add_string;
mod attributes;
mod cephx_key;
mod config_info;
mod detached;
mod device;
mod failure;
mod find;
mod helper;
mod key;
mod map;
mod module;
mod node;
mod option;
mod options;
mod origin;
mod pending;
mod preflight;
mod request;
mod reuse;
mod sys;
mod sysfs;
#[cfg(test)]
mod tests;
mod unmap;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use cephx_key::KeyType;
pub use config_info::ConfigInfo;
pub use detached::helper_main;
pub use device::{Device, ParentImage};
pub use failure::Stage;
pub use find::Target;
pub use module::ModuleState;
pub use option::{CompressionHint, MapOption, MsMode, ReadFromReplica};
pub use options::{MapOptions, OptionDifference};
pub use origin::{Liveness, Origin};
pub use pending::Pending;
pub use preflight::{KeyRing, Network, Nodes, Preflight, SysfsAccess};
pub use request::{Credentials, MapRequest, NodePolicy};
pub use reuse::ImageIdentity;
pub use unmap::{IfSeveral, UnmapOptions, Unmapped};

use crate::error::Result;
use crate::feature::Features;
#[cfg(feature = "kubernetes")]
use crate::secret::Secret;
use sysfs::Sysfs;

/// Checks that a text is a cephx key as it stands in a keyring.
#[cfg(feature = "kubernetes")]
pub(crate) fn check_key(key: &Secret) -> Result<()> {
    cephx_key::CephxKey::decode(key).map(drop)
}

/// How often a state is looked at that nothing announces.
const POLL: Duration = Duration::from_millis(10);

/// The kernel's rbd driver on this host.
///
/// It is a few paths: cheap to make and to clone, and it keeps nothing open, unless it is [detached](Self::detached).
#[derive(Clone)]
pub struct Krbd {
    sysfs: Sysfs,
    proc: PathBuf,
    bus: Bus,
    /// The processes that write to the bus, where that is not this one.
    helpers: Option<Arc<detached::Helpers>>,
}

/// Writes a request to a file of the rbd bus; the tests put another kernel in its place.
#[derive(Clone)]
struct Bus(Arc<WriteToBus>);

type WriteToBus = dyn Fn(&Path, &[u8]) -> Result<(), BusError> + Send + Sync;

/// Where a write to the bus failed.
struct BusError(Stage, io::Error);

impl Krbd {
    /// The driver as `/sys`, `/dev` and `/proc` show it.
    pub fn new() -> Self {
        Self::with_roots("/sys", "/dev", "/proc")
    }

    /// The same with the host's directories elsewhere, as in a container that has them under `/host`.
    ///
    /// Nodes and links are then under `dev`, and so are the paths in [`Device::node`].
    pub fn with_roots(sys: impl Into<PathBuf>, dev: impl Into<PathBuf>, proc: impl Into<PathBuf>) -> Self {
        let sysfs = Sysfs { root: sys.into(), dev: dev.into() };
        Self { sysfs, proc: proc.into(), bus: Bus(Arc::new(write_to_bus)), helpers: None }
    }

    /// Where it finds `/proc` and `/sys`.
    #[cfg(feature = "librados")]
    pub(crate) fn roots(&self) -> (&Path, &Path) {
        (&self.proc, &self.sysfs.root)
    }

    /// All mappings, by id.
    ///
    /// Those that go while they are read are left out.
    ///
    /// # Errors
    ///
    /// `ModuleNotLoaded` where there is no rbd bus: that is not the same as no mappings.
    pub fn list(&self) -> Result<Vec<Device>> {
        let devices = self.sysfs.ids()?.into_iter().filter_map(|id| self.sysfs.device(id).transpose());
        devices.collect()
    }

    /// The features that this kernel's driver supports (`/sys/bus/rbd/supported_features`); `None` before Linux 4.11,
    /// which does not say, and supports few.
    ///
    /// # Errors
    ///
    /// `ModuleNotLoaded`.
    pub fn supported_features(&self) -> Result<Option<Features>> {
        self.sysfs.supported_features()
    }
}

impl Default for Krbd {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Krbd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sysfs, proc, bus: _, helpers } = self;
        let mut shown = f.debug_struct("Krbd");
        shown.field("sys", &sysfs.root).field("dev", &sysfs.dev).field("proc", proc);
        shown.field("detached", &helpers.is_some()).finish()
    }
}

/// One write carries one request, or the kernel would take the rest for another.
fn write_to_bus(file: &Path, request: &[u8]) -> Result<(), BusError> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().write(true).open(file).map_err(|error| BusError(Stage::Open, error))?;
    match file.write(request) {
        Ok(written) if written == request.len() => Ok(()),
        Ok(_) => Err(BusError(Stage::Write, io::ErrorKind::WriteZero.into())),
        Err(error) => Err(BusError(Stage::Write, error)),
    }
}
