//! All that `rbd info` prints, as types.

use std::time::SystemTime;

use super::Image;
use crate::error::Result;
use crate::feature::Features;
use crate::ffi::Errno;
use crate::ffi::cluster::RadosHandle;
use crate::ffi::image::ImageHandle;
use crate::name::{BlockNamePrefix, HeaderObject, ImageId, ImageName, NamespaceName, SnapshotName};
use crate::rados::Pool;
use crate::rados::connection::Failure;

/// What `rbd info` prints of an image, or of a snapshot where one is open.
///
/// Its `Display` is the text of `rbd info`, line by line, and its `Serialize` has the keys of
/// `rbd info --format json`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageInfo {
    /// The image's name; bytes that are no UTF-8 are replaced by `�`, and [`Pool::images`] has them as they are.
    pub name: String,
    /// Its id; format 1 has none.
    pub id: Option<ImageId>,
    /// The header object, which the users of the image watch.
    pub header: HeaderObject,
    /// In bytes; of the snapshot, where one is open.
    pub size: u64,
    /// How many objects of [`Self::object_size`] that is.
    pub objects: u64,
    /// The object size is two to the power of this.
    pub order: u8,
    /// In bytes.
    pub object_size: u64,
    /// How many snapshots there are, those of groups, mirroring and the trash included.
    pub snapshot_count: usize,
    /// The pool of the data objects, where it is not the image's own. One that is gone is named
    /// `<missing data pool N>`.
    pub data_pool: Option<String>,
    /// The beginning of the names of the data objects.
    pub block_name_prefix: BlockNamePrefix,
    /// 1 or 2.
    pub format: u8,
    /// The features; none for format 1.
    pub features: Features,
    /// What the feature `operations` stands for.
    pub operation_features: OperationFeatures,
    /// What is out of date.
    pub flags: ImageFlags,
    /// The group that it is in. `None` also where the group's pool is gone: `operation_features` still tells of it
    /// then.
    pub group: Option<ImageGroup>,
    /// When it was made; `None` where Ceph was too old to note that.
    pub created: Option<SystemTime>,
    /// When it was last read, to the resolution of `rbd_atime_update_interval`.
    pub accessed: Option<SystemTime>,
    /// When it was last written, to the resolution of `rbd_mtime_update_interval`.
    pub modified: Option<SystemTime>,
    /// Whether the snapshot is protected; `None` where none is open.
    pub protected: Option<bool>,
    /// How many snapshots it may have; `None` is no limit.
    pub snapshot_limit: Option<u64>,
    /// What it is a clone of.
    pub parent: Option<ImageParent>,
    /// Only with the feature `striping`.
    pub striping: Option<Striping>,
    /// The id of the journal, with the feature `journaling`.
    pub journal: Option<String>,
    /// Mirroring: with the feature `journaling`, or where it is not disabled.
    pub mirroring: Option<MirrorImage>,
}

impl ImageInfo {
    /// The header object, which the users of the image watch.
    pub fn header_object(&self) -> &HeaderObject {
        &self.header
    }
}

bitflags::bitflags! {
    /// What of an image uses the feature `operations`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct OperationFeatures: u64 {
        /// `clone-parent`: it has clones of version 2.
        #[doc(alias = "RBD_OPERATION_FEATURE_CLONE_PARENT")]
        const CLONE_PARENT = 1 << 0;
        /// `clone-child`: it is a clone of version 2.
        #[doc(alias = "RBD_OPERATION_FEATURE_CLONE_CHILD")]
        const CLONE_CHILD = 1 << 1;
        /// `group`: it is in a group.
        #[doc(alias = "RBD_OPERATION_FEATURE_GROUP")]
        const GROUP = 1 << 2;
        /// `snap-trash`: it has deleted snapshots that clones still need.
        #[doc(alias = "RBD_OPERATION_FEATURE_SNAP_TRASH")]
        const SNAP_TRASH = 1 << 3;
        const _ = !0;
    }
}

bitflags::bitflags! {
    /// What of an image is out of date and must be rebuilt.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct ImageFlags: u64 {
        /// `object map invalid`.
        #[doc(alias = "RBD_FLAG_OBJECT_MAP_INVALID")]
        const OBJECT_MAP_INVALID = 1 << 0;
        /// `fast diff invalid`.
        #[doc(alias = "RBD_FLAG_FAST_DIFF_INVALID")]
        const FAST_DIFF_INVALID = 1 << 1;
        const _ = !0;
    }
}

impl OperationFeatures {
    /// The names that `rbd info` prints; bits that are not known have none.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        named(self.bits(), &["clone-parent", "clone-child", "group", "snap-trash"])
    }
}

impl ImageFlags {
    /// The names that `rbd info` prints; bits that are not known have none.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        named(self.bits(), &["object map invalid", "fast diff invalid"])
    }
}

fn named(bits: u64, names: &[&'static str]) -> impl Iterator<Item = &'static str> {
    names.iter().enumerate().filter(move |(bit, _)| bits & (1 << bit) != 0).map(|(_, name)| *name)
}

/// The group that an image is in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageGroup {
    /// The group's pool; one that is gone is named `<missing group pool N>`.
    pub pool: String,
    /// The namespace, which is the image's.
    pub namespace: Option<String>,
    /// The group's name.
    pub name: String,
}

/// The snapshot that an image is a clone of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageParent {
    /// The parent's pool.
    pub pool: String,
    /// Its namespace; empty is the default one.
    pub namespace: String,
    /// Its name.
    pub image: String,
    /// Its id; empty for format 1.
    pub image_id: String,
    /// The snapshot.
    pub snapshot: String,
    /// Whether the parent is in the trash.
    pub in_trash: bool,
    /// How much of the clone the parent still backs, in bytes.
    pub overlap: u64,
}

/// How data is striped over objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Striping {
    /// In bytes.
    pub unit: u64,
    /// Over how many objects.
    pub count: u64,
}

/// Mirroring of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MirrorImage {
    /// By journal or by snapshots; `None` where mirroring is disabled.
    pub mode: Option<MirrorMode>,
    /// Whether it is mirrored.
    pub state: MirrorState,
    /// The id that it shares with its mirrored twins; empty where mirroring is disabled.
    pub global_id: String,
    /// Whether this side is the one that may be written.
    pub primary: bool,
}

/// How an image is mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MirrorMode {
    /// By its journal.
    Journal,
    /// By snapshots.
    Snapshot,
    /// One that this library does not know, by its number in `rbd_mirror_image_mode_t`.
    Other(u32),
}

/// Whether an image is mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MirrorState {
    /// It is just being disabled.
    Disabling,
    /// It is.
    Enabled,
    /// It is not.
    Disabled,
    /// It is just being made (Ceph 18 and later).
    Creating,
    /// One that this library does not know, by its number in `rbd_mirror_image_state_t`.
    Other(u32),
}

impl Image {
    /// Everything that `rbd info` prints.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `PermissionDenied`, `Blocklisted`; `InvalidData` for a block name prefix of an unknown form.
    #[doc(alias = "rbd_stat")]
    pub fn info(&self) -> Result<ImageInfo> {
        let (pool, snapshot) = (self.pool.clone(), self.snapshot.clone());
        self.call_and_parse("read image info", move |image| read(image, &pool, snapshot.as_ref()))
    }

    /// The header object, which the users of the image watch: `rbd_header.ID`, or `NAME.rbd` for format 1.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    pub fn header_object(&self) -> Result<HeaderObject> {
        self.call_and_parse("look up header object of image", |image| header_of(id_of(image)?.as_ref(), image))
    }

    /// The image's id, `None` for format 1.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    #[doc(alias = "rbd_get_id")]
    pub fn id(&self) -> Result<Option<ImageId>> {
        self.call_and_parse("read id of image", id_of)
    }

    /// The id of the snapshot that is open; `None` where it is the image itself.
    ///
    /// # Errors
    ///
    /// `NotFound` where the snapshot was removed meanwhile; as [every call](crate::rados#errors).
    #[doc(alias = "rbd_snap_get_id")]
    pub fn snapshot_id(&self) -> Result<Option<u64>> {
        let Some(snapshot) = self.snapshot.clone() else { return Ok(None) };
        self.call("read id of snapshot", move |image| image.snapshot_id(snapshot.as_str())).map(Some)
    }

    /// The image's features.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rbd_get_features")]
    pub fn features(&self) -> Result<Features> {
        self.call("read features of image", ImageHandle::features).map(Features::from_bits_retain)
    }

    /// The image's size in bytes, or that of the snapshot that is open.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rbd_get_size")]
    pub fn size(&self) -> Result<u64> {
        self.call("read size of image", |image| image.layout().map(|layout| layout.size))
    }
}

fn read(image: &ImageHandle, pool: &Pool, snapshot: Option<&SnapshotName>) -> Result<ImageInfo, Failure> {
    let id = id_of(image)?;
    let layout = image.layout()?;
    let features = Features::from_bits_retain(image.features()?);
    let journaled = features.contains(Features::JOURNALING);
    Ok(ImageInfo {
        name: image.name()?,
        header: header_of(id.as_ref(), image)?,
        size: layout.size,
        objects: layout.objects,
        order: layout.order,
        object_size: layout.object_size,
        snapshot_count: image.snapshot_count()?,
        data_pool: if id.is_some() { other_pool(image, pool.id())? } else { None },
        block_name_prefix: image.block_name_prefix()?.parse()?,
        format: if id.is_some() { 2 } else { 1 },
        features,
        operation_features: OperationFeatures::from_bits_retain(image.op_features()?),
        flags: ImageFlags::from_bits_retain(image.flags()?),
        group: group(image, pool.namespace())?,
        created: image.created()?,
        accessed: image.accessed()?,
        modified: image.modified()?,
        protected: snapshot.map(|snapshot| image.is_protected(snapshot.as_str())).transpose()?,
        snapshot_limit: Some(image.snapshot_limit()?).filter(|limit| *limit != u64::MAX),
        parent: parent(image)?,
        striping: if features.contains(Features::STRIPING) {
            Some(Striping { unit: image.stripe_unit()?, count: image.stripe_count()? })
        } else {
            None
        },
        journal: id.as_ref().filter(|_| journaled).map(ImageId::to_string),
        mirroring: mirroring(image, journaled)?,
        id,
    })
}

pub(super) fn id_of(image: &ImageHandle) -> Result<Option<ImageId>, Failure> {
    if image.is_format_1()? { Ok(None) } else { Ok(Some(ImageId::new(image.id()?)?)) }
}

pub(super) fn header_of(id: Option<&ImageId>, image: &ImageHandle) -> Result<HeaderObject, Failure> {
    match id {
        Some(id) => Ok(HeaderObject::of_id(id)),
        None => Ok(HeaderObject::of_format_1(&ImageName::new(image.name()?)?)),
    }
}

fn other_pool(image: &ImageHandle, own: i64) -> Result<Option<String>, Errno> {
    let id = image.data_pool_id()?;
    Ok((id != own).then(|| pool_name(image.io().cluster(), id, "data")))
}

fn pool_name(rados: &RadosHandle, id: i64, role: &str) -> String {
    rados.pool_name(id).unwrap_or_else(|_| format!("<missing {role} pool {id}>"))
}

fn group(image: &ImageHandle, namespace: Option<&NamespaceName>) -> Result<Option<ImageGroup>, Errno> {
    let group = match image.group() {
        // The group's pool is gone, and its name with it.
        Err(Errno::NOT_FOUND) => None,
        group => group?,
    };
    Ok(group.map(|(pool, name)| ImageGroup {
        pool: pool_name(image.io().cluster(), pool, "group"),
        namespace: namespace.map(NamespaceName::to_string),
        name,
    }))
}

fn parent(image: &ImageHandle) -> Result<Option<ImageParent>, Errno> {
    let parent = match image.parent() {
        Ok(parent) => parent,
        Err(Errno::NOT_FOUND) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    Ok(Some(ImageParent {
        pool: parent.pool,
        namespace: parent.namespace,
        image: parent.image,
        image_id: parent.image_id,
        snapshot: parent.snapshot,
        in_trash: parent.trash,
        overlap: image.overlap()?,
    }))
}

fn mirroring(image: &ImageHandle, journaled: bool) -> Result<Option<MirrorImage>, Errno> {
    let mirror = image.mirror()?;
    let state = match mirror.state {
        ceph_sys::RBD_MIRROR_IMAGE_DISABLING => MirrorState::Disabling,
        ceph_sys::RBD_MIRROR_IMAGE_ENABLED => MirrorState::Enabled,
        ceph_sys::RBD_MIRROR_IMAGE_DISABLED => MirrorState::Disabled,
        // Ceph 18: RBD_MIRROR_IMAGE_CREATING.
        3 => MirrorState::Creating,
        other => MirrorState::Other(other),
    };
    if state == MirrorState::Disabled && !journaled {
        return Ok(None);
    }
    let mode = match state {
        MirrorState::Disabled => None,
        _ => Some(match image.mirror_mode()? {
            ceph_sys::RBD_MIRROR_IMAGE_MODE_JOURNAL => MirrorMode::Journal,
            ceph_sys::RBD_MIRROR_IMAGE_MODE_SNAPSHOT => MirrorMode::Snapshot,
            other => MirrorMode::Other(other),
        }),
    };
    Ok(Some(MirrorImage { mode, state, global_id: mirror.global_id, primary: mirror.primary }))
}
