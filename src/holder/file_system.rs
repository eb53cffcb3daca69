//! Which mounts are mounts of the device, and which file systems live on it without one.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::host::{self, Host};
use super::kind::{Holder, HolderKind, Mount};
use super::mountinfo::MountLine;
use super::namespace::{Reading, Readings};
use super::stack::{DeviceNames, Stack};
use super::task::Task;
use super::unseen::Unseen;
use crate::DeviceNumber;

/// The file systems on a stack of devices, and their mounts.
#[derive(Debug, Default)]
pub(super) struct FileSystems {
    /// The device of the stack, by the device number that mountinfo has: the same, except for btrfs, which makes up
    /// numbers.
    pub(super) devices: HashMap<DeviceNumber, DeviceNumber>,
    /// The device of the stack, by the number of the mount.
    pub(super) mounts: HashMap<u64, DeviceNumber>,
    /// The file system's type, by the device of the stack, for those that sysfs shows as live.
    live: Vec<(DeviceNumber, String)>,
}

impl FileSystems {
    /// Finds the mounts, one holder for each in each namespace.
    pub(super) fn read(
        host: &Host,
        stack: &Stack,
        names: &DeviceNames,
        readings: &Readings,
        unseen: &mut Vec<Unseen>,
    ) -> (Self, Vec<Holder>) {
        let btrfs = Btrfs::read(host, stack);
        let mut found = Self { live: live(host, stack, &btrfs), ..Self::default() };
        found.devices.extend(stack.layers.iter().map(|layer| (layer.device.number, layer.device.number)));
        let mut lines: Vec<(DeviceNumber, &Reading, MountLine<'_>)> = Vec::new();
        for reading in &readings.all {
            for line in reading.lines() {
                let device = if stack.contains(line.device) {
                    line.device
                } else if line.file_system.0 == b"btrfs" && !btrfs.members.is_empty() {
                    match btrfs.device_of(host, names, reading, &line) {
                        BtrfsDevice::Ours(device) => device,
                        BtrfsDevice::Other => continue,
                        BtrfsDevice::Unknown => {
                            let (source, process) = (line.source.text(), reading.process.clone());
                            unseen.push(Unseen::BtrfsMount { source, process });
                            continue;
                        }
                    }
                } else {
                    continue;
                };
                found.devices.insert(line.device, device);
                // Another root in the same namespace shows the same mount again.
                if found.mounts.insert(line.id, device).is_none() {
                    lines.push((device, reading, line));
                }
            }
        }
        let holders = found.describe(readings, &lines);
        (found, holders)
    }

    fn describe(&self, readings: &Readings, lines: &[(DeviceNumber, &Reading, MountLine<'_>)]) -> Vec<Holder> {
        let ids: HashSet<u64> = self.mounts.keys().copied().collect();
        let mut submounts: HashMap<Task, HashMap<u64, Vec<PathBuf>>> = HashMap::new();
        let mut holders = Vec::with_capacity(lines.len());
        for (device, reading, line) in lines {
            let below = submounts.entry(reading.task).or_insert_with(|| Readings::submounts(reading, &ids));
            let (mount_point, mount_point_deleted) = without_deleted(line.mount_point.path());
            let mount = Mount {
                id: line.id,
                namespace: reading.namespace,
                in_own_namespace: readings.own_namespace == Some(reading.namespace),
                process: reading.process.clone(),
                mount_point,
                mount_point_deleted,
                root: line.root.path(),
                file_system: line.file_system.text(),
                source: line.source.text(),
                read_only: line.is_read_only(),
                propagation: line.propagation,
                submounts: below.remove(&line.id).unwrap_or_default(),
            };
            holders.push(Holder { on: *device, kind: HolderKind::Mount(mount) });
        }
        holders
    }

    /// The live file systems on devices that nothing in `holders` uses by a file system.
    pub(super) fn without_user(&self, holders: &[Holder]) -> Vec<(DeviceNumber, String)> {
        let used = |device| {
            let uses = |kind: &HolderKind| matches!(kind, HolderKind::Mount(_) | HolderKind::Files(_));
            holders.iter().any(|holder| holder.on == device && uses(&holder.kind))
        };
        self.live.iter().filter(|(device, _)| !used(*device)).cloned().collect()
    }
}

/// `/sys/fs/TYPE/NAME` is there for as long as the file system is, mounted or not: ext4, xfs, f2fs and others.
fn live(host: &Host, stack: &Stack, btrfs: &Btrfs) -> Vec<(DeviceNumber, String)> {
    let mut live: Vec<_> = btrfs.own.iter().map(|device| (*device, "btrfs".to_owned())).collect();
    let types = host.names("fs");
    for layer in stack.layers.iter().filter(|layer| !layer.device.name.is_empty()) {
        let entry = layer.device.name.replace('/', "!");
        let of_type = types.iter().filter(|file_system| host.sys(format!("fs/{file_system}/{entry}")).is_dir());
        live.extend(of_type.map(|file_system| (layer.device.number, file_system.clone())));
    }
    live
}

/// The kernel writes `//deleted` behind a mount point whose directory was removed.
pub(super) fn without_deleted(mount_point: PathBuf) -> (PathBuf, bool) {
    match mount_point.as_os_str().as_bytes().strip_suffix(b"//deleted") {
        Some(path) => (host::path_of(path.to_vec()), true),
        None => (mount_point, false),
    }
}

/// The btrfs file systems that have a device of the stack among theirs. Their mounts have device numbers of no device;
/// sysfs lists the devices of each file system, and the source of a mount is one of these.
#[derive(Debug, Default)]
struct Btrfs {
    /// The devices of the stack that are in a btrfs file system.
    own: Vec<DeviceNumber>,
    /// Every device of these file systems, in the stack or not, with the device of the stack.
    members: HashMap<DeviceNumber, DeviceNumber>,
}

enum BtrfsDevice {
    Ours(DeviceNumber),
    Other,
    Unknown,
}

impl Btrfs {
    fn read(host: &Host, stack: &Stack) -> Self {
        let mut btrfs = Self::default();
        for file_system in host.names("fs/btrfs") {
            let directory = Path::new("fs/btrfs").join(file_system).join("devices");
            let devices = host.names(&directory).into_iter();
            let numbers: Vec<DeviceNumber> = devices
                .filter_map(|name| host.attribute_text(directory.join(name).join("dev"))?.parse().ok())
                .collect();
            let Some(own) = numbers.iter().copied().find(|number| stack.contains(*number)) else { continue };
            btrfs.own.push(own);
            btrfs.members.extend(numbers.into_iter().map(|number| (number, own)));
        }
        btrfs
    }

    fn device_of(&self, host: &Host, names: &DeviceNames, reading: &Reading, line: &MountLine<'_>) -> BtrfsDevice {
        let source = line.source.path();
        let number = names.of_path(&source).or_else(|| {
            // A container may have the device's node elsewhere. It is looked at, not opened.
            let below_root = source.strip_prefix("/").ok()?;
            host.status(Path::new(&reading.task.path("root")).join(below_root)).ok()?.block_device
        });
        match number {
            Some(number) => self.members.get(&number).map_or(BtrfsDevice::Other, |own| BtrfsDevice::Ours(*own)),
            None => BtrfsDevice::Unknown,
        }
    }
}
