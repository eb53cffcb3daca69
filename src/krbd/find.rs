//! Which mappings are meant: by id, device, path, spec or image id.

use std::fmt;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::{Device, Krbd, sysfs};
use crate::device_number::DeviceNumber;
use crate::error::{Error, ErrorKind, Result};
use crate::fsid::Fsid;
use crate::name::{ImageId, ImageSpec};

/// What a mapping is looked for by.
///
/// Made from an id (`u32`), a [`Device`], a path (of the node, of a partition's node, or a link to one), an
/// [`ImageSpec`] or an [`ImageId`].
///
/// ```
/// use rbd::krbd::Target;
///
/// let spec: rbd::ImageSpec = "kube/pvc-1".parse()?;
/// let target = Target::from(spec).of_cluster("0b4c9e0d-7f0c-4f7c-8a1c-0123456789ab".parse()?);
/// # Ok::<(), rbd::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Target {
    by: By,
    fsid: Option<Fsid>,
}

#[derive(Debug, Clone)]
enum By {
    Id(u32),
    Device(Box<Device>),
    Path(PathBuf),
    Spec(ImageSpec),
    ImageId(ImageId),
}

impl Target {
    /// Only mappings from this cluster: two clusters can have the same names, and the same ids.
    #[must_use]
    pub fn of_cluster(self, fsid: Fsid) -> Self {
        Self { fsid: Some(fsid), ..self }
    }

    fn admits(&self, device: &Device) -> bool {
        self.fsid.is_none() || self.fsid == device.fsid
    }
}

impl Krbd {
    /// The mapping with this id, `None` if there is none.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn device(&self, id: u32) -> Result<Option<Device>> {
        self.check_bus("look up mapped device", format!("rbd{id}"))?;
        self.sysfs.device(id)
    }

    /// All mappings that are meant by `target`, by id.
    ///
    /// A spec means the names at the time of the map: a snapshot only if it names one, the default namespace unless it
    /// names another, and the pool that it names. Mappings of format 1 images have no image id and match none.
    ///
    /// # Errors
    ///
    /// - As [`list`](Self::list).
    /// - `NotFound`, `NotBlockDevice`, `NotRbdDevice`: there is nothing at the path, or something else. A missing
    ///   `/dev/rbdN` is no error as long as N is mapped, as in a container without device nodes.
    /// - `Changed`: the id of the device is now another mapping's.
    /// - `InvalidInput`: the spec names no pool.
    pub fn find(&self, target: impl Into<Target>) -> Result<Vec<Device>> {
        let target = target.into();
        match &target.by {
            By::Device(device) => Ok(self.same(device)?.filter(|device| target.admits(device)).into_iter().collect()),
            _ => self.meant_by(&target),
        }
    }

    /// The same for a caller who compares each mapping once more before it is touched: a device is taken as it is
    /// given.
    pub(super) fn meant_by(&self, target: &Target) -> Result<Vec<Device>> {
        let mut found = match &target.by {
            By::Id(id) => self.device(*id)?.into_iter().collect(),
            By::Device(device) => vec![(**device).clone()],
            By::Path(path) => vec![self.find_by_path(path)?],
            By::Spec(spec) if spec.pool().is_none() => {
                return Err(Error::new(ErrorKind::InvalidInput, "look up mapped image")
                    .with_object(spec)
                    .with_hint("the spec names no pool"));
            }
            By::Spec(spec) => self.list()?.into_iter().filter(|device| device.is_of(spec)).collect(),
            By::ImageId(id) => self.list()?.into_iter().filter(|device| device.image_id.as_ref() == Some(id)).collect(),
        };
        found.retain(|device| target.admits(device));
        Ok(found)
    }

    /// The mapping as it is now; an error if the id is another's.
    pub(super) fn same(&self, device: &Device) -> Result<Option<Device>> {
        match self.device(device.id)? {
            Some(now) if now.is_same_mapping(device) => Ok(Some(now)),
            Some(now) => Err(Error::new(ErrorKind::Changed, "look up mapped device")
                .with_object(device)
                .with_hint(format!("the id is now that of {now}"))),
            None => Ok(None),
        }
    }

    /// The same question where what it is now does not matter.
    pub(super) fn is_there(&self, device: &Device) -> Result<bool> {
        Ok(self.sysfs.is_certainly_there(device) || self.same(device)?.is_some())
    }

    fn find_by_path(&self, path: &Path) -> Result<Device> {
        const OPERATION: &str = "look up mapped device";
        // Follows links; does not open the device.
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => {
                let device = self.device_of_node(path)?;
                return device.ok_or_else(|| Error::from_io(OPERATION, error).with_object(path.display()));
            }
        };
        if !metadata.file_type().is_block_device() {
            return Err(Error::new(ErrorKind::NotBlockDevice, OPERATION).with_object(path.display()));
        }
        let number = DeviceNumber::from_dev(metadata.st_rdev());
        let disk = self.sysfs.whole_disk(number);
        let device = match disk.as_deref().and_then(sysfs::id_of) {
            Some(id) => self.device(id)?,
            None => None,
        };
        device.filter(|device| device.number.major() == number.major()).ok_or_else(|| {
            Error::new(ErrorKind::NotRbdDevice, OPERATION).with_object(path.display()).with_hint(match disk {
                Some(disk) => format!("{number} belongs to {disk}"),
                None => format!("the kernel has no block device {number}"),
            })
        })
    }

    /// The mapping whose node this would be if the host's `/dev` had it.
    fn device_of_node(&self, path: &Path) -> Result<Option<Device>> {
        match sysfs::id_of_path(path) {
            Some(id) => Ok(self.device(id)?.filter(|device| device.node == path)),
            None => Ok(None),
        }
    }
}

impl From<u32> for Target {
    fn from(id: u32) -> Self {
        Self { by: By::Id(id), fsid: None }
    }
}

impl From<&Device> for Target {
    fn from(device: &Device) -> Self {
        device.clone().into()
    }
}

impl From<Device> for Target {
    fn from(device: Device) -> Self {
        Self { by: By::Device(Box::new(device)), fsid: None }
    }
}

impl From<&Path> for Target {
    fn from(path: &Path) -> Self {
        Self { by: By::Path(path.to_owned()), fsid: None }
    }
}

impl From<PathBuf> for Target {
    fn from(path: PathBuf) -> Self {
        Self { by: By::Path(path), fsid: None }
    }
}

impl From<&PathBuf> for Target {
    fn from(path: &PathBuf) -> Self {
        path.as_path().into()
    }
}

impl From<ImageSpec> for Target {
    fn from(spec: ImageSpec) -> Self {
        Self { by: By::Spec(spec), fsid: None }
    }
}

impl From<&ImageSpec> for Target {
    fn from(spec: &ImageSpec) -> Self {
        spec.clone().into()
    }
}

impl From<ImageId> for Target {
    fn from(id: ImageId) -> Self {
        Self { by: By::ImageId(id), fsid: None }
    }
}

impl From<&ImageId> for Target {
    fn from(id: &ImageId) -> Self {
        id.clone().into()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            By::Id(id) => write!(f, "rbd{id}"),
            By::Device(device) => write!(f, "{device}"),
            By::Path(path) => write!(f, "{}", path.display()),
            By::Spec(spec) => write!(f, "{spec}"),
            By::ImageId(id) => write!(f, "image id {id}"),
        }?;
        match self.fsid {
            Some(fsid) => write!(f, " of cluster {fsid}"),
            None => Ok(()),
        }
    }
}
