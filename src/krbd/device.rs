//! A mapping, as the kernel shows it.

use std::fmt;
use std::path::PathBuf;

use super::config_info::ConfigInfo;
use super::origin::Origin;
use crate::address::EntityAddress;
use crate::device_number::DeviceNumber;
use crate::feature::Features;
use crate::fsid::Fsid;
use crate::name::{ImageId, ImageName, ImageSpec, NamespaceName, PoolName, RawName, SnapshotName};

/// A mapping of an image or a snapshot to a block device, as `/sys/bus/rbd/devices/ID` showed it.
///
/// It is what was read at one moment, not a hold on the device. `None` stands for what this kernel does not show, or
/// not to this process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Device {
    /// The number in `/dev/rbdID`. Ids are used again.
    pub id: u32,
    /// `/dev/rbdID`: where the device node should be, which is not known to be there.
    pub node: PathBuf,
    /// The block device's number. Where the kernel shows no minor (before Linux 3.14), each device has a major of its
    /// own and minor 0.
    pub number: DeviceNumber,
    /// The pool's name when it was mapped.
    pub pool: RawName,
    /// The pool's id (Linux 3.6).
    pub pool_id: Option<u64>,
    /// The namespace; `None` is the default one, also on a kernel that knows no namespaces.
    pub namespace: Option<RawName>,
    /// The image's name when it was mapped: after a rename it is still the old one.
    pub image: RawName,
    /// The image's id (Linux 3.7), which a rename does not change; an image of format 1 has none.
    pub image_id: Option<ImageId>,
    /// The snapshot; `None` is the image itself.
    pub snapshot: Option<RawName>,
    /// The snapshot's id (Linux 4.9); [`NO_SNAPSHOT`](Self::NO_SNAPSHOT) for the image itself.
    pub snapshot_id: Option<u64>,
    /// The cluster (Linux 4.9).
    pub fsid: Option<Fsid>,
    /// The kernel client's address (Linux 4.9): the same that the image's list of watchers has for it.
    pub client_address: Option<EntityAddress>,
    /// The kernel client's id: 4115 for `client.4115`. Mappings with equal options share a client.
    pub client_id: Option<u64>,
    /// Bytes.
    pub size: u64,
    /// Whether writes are refused: mapped read-only, a snapshot, or set so later.
    pub read_only: Option<bool>,
    /// The image's features (Linux 3.7).
    pub features: Option<Features>,
    /// What was written to the kernel to map it (Linux 4.9), for root's eyes only.
    pub config: Option<ConfigInfo>,
    /// The images that it was cloned from, the nearest first (Linux 3.8).
    pub parents: Vec<ParentImage>,
    /// A number that no two disks share between two boots (Linux 5.15).
    pub disk_sequence: Option<u64>,
}

/// An image that a mapped image was cloned from: one block of the attribute `parent`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ParentImage {
    /// The id of its pool.
    pub pool_id: u64,
    /// The name of its pool.
    pub pool: RawName,
    /// Its namespace; `None` is the default one.
    pub namespace: Option<RawName>,
    /// Its id.
    pub image_id: String,
    /// Its name; the kernel shows `(unknown)` for one that it could not find out.
    pub image: RawName,
    /// The id of the snapshot that was cloned.
    pub snapshot_id: u64,
    /// The name of the snapshot that was cloned.
    pub snapshot: RawName,
    /// Bytes from the start of the child that can still come from this parent.
    pub overlap: u64,
}

impl Device {
    /// The `snapshot_id` of a mapping of the image itself (the kernel's `CEPH_NOSNAP`).
    pub const NO_SNAPSHOT: u64 = u64::MAX - 1;

    /// The names when it was mapped, as a spec; `None` if one of them is a name that Ceph would not allow.
    pub fn spec(&self) -> Option<ImageSpec> {
        let spec = ImageSpec::new(ImageName::try_from(&self.image).ok()?);
        let pool = PoolName::try_from(&self.pool).ok()?;
        let spec = match &self.namespace {
            Some(namespace) => spec.in_namespace(pool, NamespaceName::try_from(namespace).ok()?),
            None => spec.in_pool(pool),
        };
        match &self.snapshot {
            Some(snapshot) => Some(spec.at_snapshot(SnapshotName::try_from(snapshot).ok()?)),
            None => Some(spec),
        }
    }

    /// Whether it was mapped by these names. A spec without a pool means none.
    pub fn is_of(&self, spec: &ImageSpec) -> bool {
        fn same(raw: Option<&RawName>, name: Option<&str>) -> bool {
            raw.map(RawName::as_bytes) == name.map(str::as_bytes)
        }
        same(Some(&self.pool), spec.pool().map(PoolName::as_str))
            && same(self.namespace.as_ref(), spec.namespace().map(NamespaceName::as_str))
            && same(Some(&self.image), Some(spec.image().as_str()))
            && same(self.snapshot.as_ref(), spec.snapshot().map(SnapshotName::as_str))
    }

    /// Which process mapped it, if that was this library.
    pub fn origin(&self) -> Option<Origin> {
        self.config.as_ref()?.origin()
    }

    /// Whether `other`, read at another moment, is the same mapping, and not another one that got the same id.
    ///
    /// What cannot change during a mapping's life is compared: the cluster, the image's id, the kernel client, what was
    /// written to map it and the disk's sequence number, these two as far as both have them.
    pub fn is_same_mapping(&self, other: &Self) -> bool {
        let identity = |device: &Self| (device.id, device.fsid, device.pool_id, device.snapshot_id, device.client_id);
        fn agree<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        identity(self) == identity(other)
            && self.image_id == other.image_id
            && self.client_address == other.client_address
            // Only root sees it: one of the two may have been read without.
            && agree(self.config.as_ref(), other.config.as_ref())
            // The kernel shows the mapping first and then the disk.
            && agree(self.disk_sequence.as_ref(), other.disk_sequence.as_ref())
            && (&self.pool, &self.namespace, &self.snapshot) == (&other.pool, &other.namespace, &other.snapshot)
    }
}

impl fmt::Display for Device {
    /// The node and what is mapped there: `/dev/rbd0 (kube/pvc-1@s)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}/", self.node.display(), self.pool)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{}", self.image)?;
        if let Some(snapshot) = &self.snapshot {
            write!(f, "@{snapshot}")?;
        }
        f.write_str(")")
    }
}

impl ParentImage {
    /// Reads the attribute `parent`: blocks of `key value` lines with an empty line between them, or one line in
    /// brackets that says that there is none.
    pub(super) fn chain(text: &str) -> Vec<Self> {
        text.split("\n\n").filter_map(Self::read).collect()
    }

    fn read(block: &str) -> Option<Self> {
        let field = |key: &str| block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        Some(Self {
            pool_id: field("pool_id")?.parse().ok()?,
            pool: field("pool_name")?.into(),
            namespace: field("pool_ns").filter(|namespace| !namespace.is_empty()).map(RawName::from),
            image_id: field("image_id")?.to_owned(),
            image: field("image_name")?.into(),
            snapshot_id: field("snap_id")?.parse().ok()?,
            snapshot: field("snap_name")?.into(),
            overlap: field("overlap")?.parse().ok()?,
        })
    }
}
