//! What the kernel shows of the rbd bus: the one place that reads it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

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

    /// The ids of the mappings that there are now, in order.
    pub(super) fn ids(&self) -> Result<Vec<u32>> {
        let directory = self.bus().join("devices");
        let entries = fs::read_dir(&directory)
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>());
        match entries {
            Ok(names) => {
                let mut ids: Vec<u32> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
                ids.sort_unstable();
                Ok(ids)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(no_module("list mapped devices")),
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
        let block = self.root.join(format!("block/rbd{id}"));
        let name = |attribute| Ok::<_, io::Error>(optional(directory, attribute)?.map(RawName::from));
        let number = |attribute| Ok::<_, io::Error>(optional_text(directory, attribute)?.and_then(|n| n.parse().ok()));
        let snapshot = required(directory, "current_snap")?;
        let mut device = Device {
            id,
            node: self.dev.join(format!("rbd{id}")),
            number: DeviceNumber::new(0, 0),
            pool: RawName::from(Vec::new()),
            pool_id: number("pool_id")?,
            namespace: name("pool_ns")?.filter(|namespace| !namespace.as_bytes().is_empty()),
            image: RawName::from(required(directory, "name")?),
            // Format 1 images have none: the attribute is there and empty.
            image_id: optional_text(directory, "image_id")?.and_then(|id| ImageId::new(id).ok()),
            snapshot: (snapshot != b"-").then(|| RawName::from(snapshot)),
            snapshot_id: number("snap_id")?,
            fsid: optional_text(directory, "cluster_fsid")?.and_then(|fsid| fsid.parse().ok()),
            client_address: optional_text(directory, "client_addr")?.and_then(|address| address.parse().ok()),
            client_id: optional_text(directory, "client_id")?
                .and_then(|id| id.strip_prefix("client")?.trim_start_matches('.').parse().ok()),
            size: number("size")?.unwrap_or(0),
            read_only: optional(&block, "ro")?.map(|ro| ro != b"0"),
            features: optional_text(directory, "features")?.and_then(|bits| features(&bits)),
            config: self.config_info(directory)?,
            parents: optional_text(directory, "parent")?.map(|text| ParentImage::chain(&text)).unwrap_or_default(),
            disk_sequence: optional_text(&block, "diskseq")?.and_then(|number| number.parse().ok()),
        };
        // Read last: if these are there, then what was missing before is missing on this kernel, not gone with the
        // device.
        device.pool = RawName::from(required(directory, "pool")?);
        let minor = number("minor")?.and_then(|minor| u32::try_from(minor).ok()).unwrap_or(0);
        // A device on its way in or out has "(none)".
        let major =
            text(required(directory, "major")?).parse().map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        device.number = DeviceNumber::new(major, minor);
        Ok(device)
    }

    /// The mark on the mapping `id`, read alone; `None` if it has none, or is gone.
    pub(super) fn origin(&self, id: u32) -> Result<Option<Origin>> {
        let directory = self.device_directory(id);
        match self.config_info(&directory) {
            Ok(config) => Ok(config.and_then(|config| config.origin())),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(unreadable(&directory, error)),
        }
    }

    /// The add string, which only root may read.
    fn config_info(&self, directory: &Path) -> io::Result<Option<ConfigInfo>> {
        match optional(directory, "config_info") {
            Ok(bytes) => Ok(bytes.map(|bytes| ConfigInfo::read(&Zeroizing::new(text(bytes))))),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The features that this kernel's driver knows; `None` before Linux 4.11, which does not say.
    pub(super) fn supported_features(&self) -> Result<Option<Features>> {
        let bus = self.bus();
        match optional_text(&bus, "supported_features") {
            Ok(Some(mask)) => features(&mask).map(Some).ok_or_else(|| {
                Error::new(ErrorKind::InvalidData, "read supported features").with_object(format!("{mask:?}"))
            }),
            Ok(None) if bus.is_dir() => Ok(None),
            Ok(None) => Err(no_module("read supported features")),
            Err(error) => Err(unreadable(&bus.join("supported_features"), error)),
        }
    }

    /// Whether the module hands out minors of one major; `None` where it does not say.
    pub(super) fn single_major(&self) -> Option<bool> {
        let value = optional(&self.module().join("parameters"), "single_major").ok()??;
        Some(value == b"Y")
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

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// An attribute's value: one newline at its end is not part of it, blanks are.
fn required(directory: &Path, attribute: &str) -> io::Result<Vec<u8>> {
    let mut value = fs::read(directory.join(attribute))?;
    if value.last() == Some(&b'\n') {
        value.pop();
    }
    Ok(value)
}

fn optional(directory: &Path, attribute: &str) -> io::Result<Option<Vec<u8>>> {
    match required(directory, attribute) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn optional_text(directory: &Path, attribute: &str) -> io::Result<Option<String>> {
    Ok(optional(directory, attribute)?.map(text))
}

/// sysfs says ENOENT when it looks for a device that is gone, and ENODEV when that goes during the read.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV)) || error.kind() == io::ErrorKind::NotFound
}

pub(super) fn no_module(operation: &'static str) -> Error {
    Error::new(ErrorKind::ModuleNotLoaded, operation)
        .at(Stage::Module)
        .with_hint("the kernel's rbd module is not loaded: `modprobe rbd` or Krbd::load_module")
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
