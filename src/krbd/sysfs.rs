//! What the kernel shows of the rbd bus: the one place that reads it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::attributes::Attributes;
use super::config_info::ConfigInfo;
use super::device::{Device, ParentImage};
use super::failure::Stage;
use super::origin::Origin;
use crate::device_number::DeviceNumber;
use crate::error::{Error, ErrorKind, Result};
use crate::feature::Features;
use crate::name::{ImageId, RawName};

/// `/sys` and `/dev`, or where the caller says that they are.
#[derive(Debug, Clone)]
pub(super) struct Sysfs {
    pub(super) root: PathBuf,
    pub(super) dev: PathBuf,
}

impl Sysfs {
    pub(super) fn bus(&self) -> PathBuf {
        self.root.join("bus/rbd")
    }

    pub(super) fn module(&self) -> PathBuf {
        self.root.join("module/rbd")
    }

    fn device_directory(&self, id: u32) -> PathBuf {
        self.bus().join("devices").join(id.to_string())
    }

    fn block_directory(&self, id: u32) -> PathBuf {
        self.root.join(format!("block/rbd{id}"))
    }

    /// The ids of the mappings that there are now, in order.
    pub(super) fn ids(&self) -> Result<Vec<u32>> {
        settled(|| self.listed_ids())
    }

    /// The same from one listing, which may lack one that stays: see [`settled`].
    pub(super) fn listed_ids(&self) -> Result<Vec<u32>> {
        let directory = self.bus().join("devices");
        let entries = fs::read_dir(&directory)
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>());
        match entries {
            Ok(names) => {
                let mut ids: Vec<u32> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
                ids.sort_unstable();
                Ok(ids)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.no_module("list mapped devices")),
            Err(error) => Err(unreadable(&directory, error)),
        }
    }

    /// The mapping `id`; `None` if there is none, or if it goes while it is read.
    pub(super) fn device(&self, id: u32) -> Result<Option<Device>> {
        let directory = self.device_directory(id);
        match self.read_device(id, &directory) {
            Ok(device) => Ok(Some(device)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(unreadable(&directory, error)),
        }
    }

    fn read_device(&self, id: u32, directory: &Path) -> io::Result<Device> {
        let mut shown = Attributes::of(directory)?;
        let mut block = Attributes::of(&self.block_directory(id)).ok();
        let snapshot = shown.required("current_snap")?.to_vec();
        let mut device = Device {
            id,
            node: self.dev.join(format!("rbd{id}")),
            number: DeviceNumber::new(0, 0),
            pool: RawName::from(Vec::new()),
            pool_id: shown.parsed("pool_id")?,
            namespace: name(shown.optional("pool_ns")?).filter(|namespace| !namespace.as_bytes().is_empty()),
            image: RawName::from(shown.required("name")?.to_vec()),
            image_id: image_id(&mut shown)?,
            snapshot: (snapshot != b"-").then(|| RawName::from(snapshot)),
            snapshot_id: shown.parsed("snap_id")?,
            fsid: shown.parsed("cluster_fsid")?,
            client_address: shown.parsed("client_addr")?,
            client_id: client_id(&mut shown)?,
            size: shown.parsed("size")?.unwrap_or(0),
            read_only: None,
            features: shown.text("features")?.and_then(|bits| features(&bits)),
            config: config_info(&mut shown)?,
            parents: shown.text("parent")?.map(|text| ParentImage::chain(&text)).unwrap_or_default(),
            disk_sequence: None,
        };
        if let Some(block) = &mut block {
            device.read_only = block.optional("ro")?.map(|ro| ro != b"0");
            device.disk_sequence = block.parsed("diskseq")?;
        }
        // Read last: if these are there, then what was missing before is missing on this kernel, not gone with the
        // device.
        device.pool = RawName::from(shown.required("pool")?.to_vec());
        let minor = shown.parsed("minor")?.unwrap_or(0);
        // A device on its way in or out has "(none)".
        let major = shown.parsed("major")?.ok_or(io::ErrorKind::NotFound)?;
        device.number = DeviceNumber::new(major, minor);
        Ok(device)
    }

    /// Whether `device` is there for certain, by the few attributes that together no other mapping has: a fraction of
    /// the time that all of them take. `false` says nothing.
    pub(super) fn is_certainly_there(&self, device: &Device) -> bool {
        let look = || -> io::Result<bool> {
            let mut shown = Attributes::of(&self.device_directory(device.id))?;
            let mut block = Attributes::of(&self.block_directory(device.id))?;
            Ok(config_info(&mut shown)? == device.config
                && shown.parsed("cluster_fsid")? == device.fsid
                && client_id(&mut shown)? == device.client_id
                && block.parsed("diskseq")? == device.disk_sequence
                && image_id(&mut shown)? == device.image_id)
        };
        device.config.is_some() && device.disk_sequence.is_some() && look().unwrap_or(false)
    }

    pub(super) fn no_module(&self, operation: &'static str) -> Error {
        let error = Error::new(ErrorKind::ModuleNotLoaded, operation).at(Stage::Module);
        let buses = self.root.join("bus");
        if buses.is_dir() {
            error.with_hint("`modprobe rbd` or Krbd::load_module loads it")
        } else {
            error.with_hint(format!("there is no {} at all: is sysfs mounted?", buses.display()))
        }
    }

    /// The mark on the mapping `id`, read alone; `None` if it has none, or is gone.
    pub(super) fn origin(&self, id: u32) -> Result<Option<Origin>> {
        let directory = self.device_directory(id);
        match Attributes::of(&directory).and_then(|mut shown| config_info(&mut shown)) {
            Ok(config) => Ok(config.and_then(|config| config.origin())),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(unreadable(&directory, error)),
        }
    }

    /// The features that this kernel's driver knows; `None` before Linux 4.11, which does not say.
    pub(super) fn supported_features(&self) -> Result<Option<Features>> {
        let bus = self.bus();
        match Attributes::of(&bus).and_then(|mut shown| shown.text("supported_features")) {
            Ok(Some(mask)) => features(&mask).map(Some).ok_or_else(|| {
                Error::new(ErrorKind::InvalidData, "read supported features").with_object(format!("{mask:?}"))
            }),
            Ok(None) => Ok(None),
            Err(error) if is_gone(&error) => Err(self.no_module("read supported features")),
            Err(error) => Err(unreadable(&bus.join("supported_features"), error)),
        }
    }

    /// Whether the module hands out minors of one major; `None` where it does not say.
    pub(super) fn single_major(&self) -> Option<bool> {
        let mut parameters = Attributes::of(&self.module().join("parameters")).ok()?;
        Some(parameters.required("single_major").ok()? == b"Y")
    }

    /// The whole disk's name, such as `rbd4`, of the block device with this number, which may be a partition;
    /// `None` if there is no such block device.
    pub(super) fn whole_disk(&self, number: DeviceNumber) -> Option<String> {
        let entry = fs::canonicalize(self.root.join(format!("dev/block/{number}"))).ok()?;
        let disk = if entry.join("partition").exists() { entry.parent()? } else { &entry };
        Some(disk.file_name()?.to_str()?.to_owned())
    }
}

fn features(text: &str) -> Option<Features> {
    Features::parse_kernel_mask(text).ok()
}

fn name(value: Option<&[u8]>) -> Option<RawName> {
    value.map(|name| RawName::from(name.to_vec()))
}

/// Format 1 images have none: the attribute is there and empty.
fn image_id(shown: &mut Attributes) -> io::Result<Option<ImageId>> {
    Ok(shown.text("image_id")?.and_then(|id| ImageId::new(id).ok()))
}

fn client_id(shown: &mut Attributes) -> io::Result<Option<u64>> {
    Ok(shown.text("client_id")?.and_then(|id| id.strip_prefix("client")?.trim_start_matches('.').parse().ok()))
}

/// The add string, which only root may read.
fn config_info(shown: &mut Attributes) -> io::Result<Option<ConfigInfo>> {
    let config = match shown.optional("config_info") {
        Ok(text) => text.map(|text| ConfigInfo::read(&Zeroizing::new(String::from_utf8_lossy(text).into_owned()))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(error),
    };
    shown.wipe();
    Ok(config)
}

/// sysfs says ENOENT when it looks for a device that is gone, and ENODEV when that goes during the read.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV)) || error.kind() == io::ErrorKind::NotFound
}

/// What a listing of sysfs says when it leaves out nothing that stays.
///
/// When an entry is removed during a listing that has it, then the one behind it can be stepped over
/// (`kernfs_dir_next_pos` in `fs/kernfs/dir.c`). The next listing has not got what was removed: of two that are equal
/// the first is whole. Where it never settles, it is all that was seen.
fn settled(mut list: impl FnMut() -> Result<Vec<u32>>) -> Result<Vec<u32>> {
    const LISTINGS: usize = 5;
    let mut seen = BTreeSet::new();
    let mut last = list()?;
    for _ in 1..LISTINGS {
        let next = list()?;
        if next == last {
            return Ok(last);
        }
        seen.extend(std::mem::replace(&mut last, next));
    }
    seen.extend(last);
    Ok(seen.into_iter().collect())
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::from_io("read", error).with_object(path.display())
}

/// The id in a device's name, such as `rbd4`.
pub(super) fn id_of(name: &str) -> Option<u32> {
    name.strip_prefix("rbd")?.parse().ok()
}

/// The id in the name of a path's last part.
pub(super) fn id_of_path(path: &Path) -> Option<u32> {
    id_of(str::from_utf8(path.file_name()?.as_bytes()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled_of(listings: &[&[u32]]) -> Vec<u32> {
        let mut listings = listings.iter();
        settled(|| Ok(listings.next().unwrap().to_vec())).unwrap()
    }

    #[test]
    fn a_listing_that_steps_over_an_entry_is_not_the_last() {
        assert_eq!(settled_of(&[&[1, 2], &[1, 2]]), [1, 2]);
        // 2 goes while it is listed, and 3 is stepped over.
        assert_eq!(settled_of(&[&[1, 2, 4], &[1, 3, 4], &[1, 3, 4]]), [1, 3, 4]);
        assert_eq!(settled_of(&[&[1], &[2], &[3], &[4], &[5]]), [1, 2, 3, 4, 5]);
    }
}
