//! Who on this host keeps a block device busy.
//!
//! `rbd unmap` says EBUSY, `lsof` shows nothing: the mount has leaked into another container, a volume group on the
//! device was activated, a process sits in a directory that was unmounted lazily. [`Holders::of`] looks at all of
//! these, for any block device, and lists them in the order in which they must be closed. It needs no Ceph library,
//! never opens the device, and its time is bounded.
//!
//! ```no_run
//! use rbd::{DeviceNumber, Holders};
//!
//! # fn main() -> rbd::Result<()> {
//! let holders = Holders::of_node("/dev/rbd0")?.run()?;
//! for holder in holders.iter() {
//!     println!("{holder}");
//! }
//! if !holders.is_complete() {
//!     println!("not looked at: {:?}", holders.unseen());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! It takes root to see other users' processes; without, they are among [`Holders::unseen`]. What is seen is not one
//! moment's state: processes go on while they are looked at. Some holders cannot be seen at all from outside the
//! kernel: a descriptor on its way through a socket or registered with io_uring, and block devices that a kernel target
//! (NVMe, iSCSI) exports.

mod backing;
mod cgroup;
mod file_system;
mod host;
mod kcmp;
mod kind;
mod mountinfo;
mod namespace;
mod newcomer;
mod now;
mod open_file;
mod parallel;
mod report;
mod search;
mod stack;
mod task;
mod unseen;

use std::path::Path;

pub(crate) use host::status_at;
#[cfg(feature = "serde")]
pub(crate) use kind::lossy;
pub use kind::{
    DeviceUser, DmTarget, FileUse, FileUser, Holder, HolderKind, KernelUser, Mount, Process, StackedDevice,
    StackedDriver, Swap, UsedFile,
};
pub use mountinfo::Propagation;
pub(crate) use now::{Now, mount_now, stacked_now, swap_now};
pub(crate) use report::{Shown, list_files};
pub use search::Search;
pub use unseen::{ProcessPart, Unseen, UnseenReason};

use crate::{DeviceNumber, Result};

/// What keeps a block device busy, as far as it could be seen.
///
/// `Display` gives a tree for people, 80 columns wide where paths allow; with the feature `serde` it is `Serialize`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Holders {
    device: DeviceNumber,
    name: Option<String>,
    holders: Vec<Holder>,
    unseen: Vec<Unseen>,
}

impl Holders {
    /// A search for the holders of a device: of the whole disk with its partitions, or of one partition.
    ///
    /// The device need not exist any more: after a forced unmap its mounts stay.
    pub fn of(device: DeviceNumber) -> Search {
        Search::new(device)
    }

    /// As [`Self::of`], by the path of a device node or of a link to one, which is looked at (`stat(2)`) and not
    /// opened.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) where there is no such node,
    /// [`ErrorKind::NotBlockDevice`](crate::ErrorKind::NotBlockDevice) where it is something else.
    pub fn of_node(path: impl AsRef<Path>) -> Result<Search> {
        search::number_of_node(path.as_ref()).map(Search::new)
    }

    /// The device that was asked about.
    pub fn device(&self) -> DeviceNumber {
        self.device
    }

    /// The kernel's name of the device, such as `rbd0`; `None` where it does not exist (any more).
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The holders, in the order in which they must be closed: who uses files, then the mount, then the device below
    /// it. Partitions that nobody uses are not among them.
    pub fn iter(&self) -> std::slice::Iter<'_, Holder> {
        self.holders.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// Whether none was seen. Only together with [`Self::is_complete`] does this mean that there is none.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// What could not be looked at.
    pub fn unseen(&self) -> &[Unseen] {
        &self.unseen
    }

    /// Whether everything was looked at.
    pub fn is_complete(&self) -> bool {
        self.unseen.is_empty()
    }
}

impl<'a> IntoIterator for &'a Holders {
    type Item = &'a Holder;
    type IntoIter = std::slice::Iter<'a, Holder>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
