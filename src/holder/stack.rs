//! Block devices on top of block devices, as sysfs shows them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::host::{self, Host};
use super::kind::{DmTarget, StackedDevice, StackedDriver};
use crate::DeviceNumber;

/// The device asked about and all that is stacked on it.
#[derive(Debug)]
pub(super) struct Stack {
    /// In the order in which they must be closed; the device asked about is the last.
    pub(super) layers: Vec<Layer>,
}

/// A device of a [`Stack`].
#[derive(Debug)]
pub(super) struct Layer {
    /// What it lies on: itself for the device asked about.
    pub(super) on: DeviceNumber,
    pub(super) device: StackedDevice,
}

impl Stack {
    /// `loops` has, for each device, the loop devices whose backing file is the device or lies on its file system:
    /// sysfs does not name those among a device's holders.
    pub(super) fn read(host: &Host, device: DeviceNumber, loops: &HashMap<DeviceNumber, Vec<DeviceNumber>>) -> Self {
        let mut stack = Self { layers: Vec::new() };
        let mut visited = vec![device];
        stack.add(host, device, device, loops, &mut visited);
        stack
    }

    /// Adds what lies on `device`, then `device`. One that lies on two others is closed before both, so its first place
    /// is the right one.
    fn add(
        &mut self,
        host: &Host,
        device: DeviceNumber,
        on: DeviceNumber,
        loops: &HashMap<DeviceNumber, Vec<DeviceNumber>>,
        visited: &mut Vec<DeviceNumber>,
    ) {
        let mut upper = partitions(host, device);
        upper.extend(holders(host, device));
        upper.extend(loops.get(&device).into_iter().flatten());
        for upper in upper {
            if !visited.contains(&upper) {
                visited.push(upper);
                self.add(host, upper, device, loops, visited);
            }
        }
        self.layers.push(Layer { on, device: describe(host, device) });
    }

    pub(super) fn contains(&self, device: DeviceNumber) -> bool {
        self.layers.iter().any(|layer| layer.device.number == device)
    }
}

/// The directory below sysfs of a device.
pub(super) fn directory(device: DeviceNumber) -> PathBuf {
    PathBuf::from(format!("dev/block/{device}"))
}

/// The kernel's name of a device, such as `rbd0p1`; `None` where it does not exist (any more).
pub(super) fn name(host: &Host, device: DeviceNumber) -> Option<String> {
    let target = std::fs::read_link(host.sys(directory(device))).ok()?;
    // sysfs has no names with a slash in them: `cciss!c0d0` is /dev/cciss/c0d0.
    Some(target.file_name()?.to_string_lossy().replace('!', "/"))
}

fn number(host: &Host, directory: impl AsRef<Path>) -> Option<DeviceNumber> {
    host.attribute_text(directory.as_ref().join("dev"))?.parse().ok()
}

fn partitions(host: &Host, device: DeviceNumber) -> Vec<DeviceNumber> {
    let directory = directory(device);
    let inside = host.names(&directory).into_iter().map(|name| directory.join(name));
    inside.filter(|path| host.sys(path).join("partition").is_file()).filter_map(|path| number(host, path)).collect()
}

pub(super) fn holders(host: &Host, device: DeviceNumber) -> Vec<DeviceNumber> {
    let directory = directory(device).join("holders");
    host.names(&directory).into_iter().filter_map(|name| number(host, directory.join(name))).collect()
}

pub(super) fn describe(host: &Host, device: DeviceNumber) -> StackedDevice {
    let directory = directory(device);
    let text = |attribute: &str| host.attribute_text(directory.join(attribute));
    let name = name(host, device).unwrap_or_default();
    let driver = if text("partition").is_some() {
        StackedDriver::Partition
    } else if let Some(dm_name) = text("dm/name") {
        let uuid = text("dm/uuid").unwrap_or_default();
        let target = DmTarget::of_uuid(&uuid);
        StackedDriver::Dm { name: dm_name, uuid, target, suspended: text("dm/suspended").as_deref() == Some("1") }
    } else if let Some(backing_file) = host.attribute(directory.join("loop/backing_file")) {
        StackedDriver::Loop { backing_file: host::path_of(backing_file) }
    } else if let Some(level) = text("md/level") {
        StackedDriver::Md { level }
    } else if name.starts_with("bcache") {
        StackedDriver::Bcache
    } else {
        StackedDriver::Other
    };
    StackedDevice { number: device, name, driver }
}

/// The devices that the kernel calls `NAME` (and dm devices by their own names), for what names a device by its path.
#[derive(Debug)]
pub(super) struct DeviceNames(HashMap<String, DeviceNumber>);

impl DeviceNames {
    pub(super) fn read(host: &Host) -> Self {
        let mut names = HashMap::new();
        for entry in host.names("dev/block") {
            let Ok(device) = entry.parse() else { continue };
            if let Some(name) = name(host, device) {
                names.insert(name, device);
            }
            if let Some(dm_name) = host.attribute_text(directory(device).join("dm/name")) {
                names.insert(format!("mapper/{dm_name}"), device);
            }
        }
        Self(names)
    }

    /// By a path such as `/dev/rbd0`, `/dev/dm-3` or `/dev/mapper/vg-lv`; a container may have its devices elsewhere.
    pub(super) fn of_path(&self, path: &Path) -> Option<DeviceNumber> {
        self.0.get(path.strip_prefix("/dev").ok()?.to_str()?).copied()
    }
}
