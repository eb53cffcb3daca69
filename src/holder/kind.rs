//! What can keep a block device busy, as values.

use std::path::PathBuf;

use super::mountinfo::Propagation;
use crate::DeviceNumber;

/// One thing that keeps a device busy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// The device that it holds: the one asked about, a partition of it, or a device stacked on it.
    pub on: DeviceNumber,
    /// What it is.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub kind: HolderKind,
}

/// What a [`Holder`] is, and so what frees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum HolderKind {
    /// A process uses files of the file system on the device: they are closed before it can be unmounted.
    Files(FileUser),
    /// The kernel itself uses the device or its file system, on nobody's behalf that could be seen.
    Kernel(KernelUser),
    /// The file system is mounted: `umount` in that namespace.
    Mount(Mount),
    /// A process has the device itself open.
    Device(DeviceUser),
    /// Swap space on the device, or in a file on it: `swapoff`.
    Swap(Swap),
    /// Another block device on top of it: closed after its own holders, which come before it in the list.
    Stacked(StackedDevice),
}

/// A process, or one thread of it that has its own mount namespace, directories or descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Process {
    /// The process, as numbered in the proc that was read.
    pub pid: i32,
    /// The thread, where it alone is meant.
    pub tid: Option<i32>,
    /// Its command name (`/proc/PID/comm`: of a program at most 15 bytes); empty where the process was gone by then.
    pub comm: String,
    /// The id of its container, from the cgroup path.
    pub container: Option<String>,
    /// The UID of its pod, from the cgroup path.
    pub pod: Option<String>,
}

/// A mount, in one of the mount namespaces that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Mount {
    /// The kernel's number of the mount, unlike any other mount's on this host while it lasts.
    pub id: u64,
    /// The namespace that it is in, by the number in `/proc/PID/ns/mnt`.
    pub namespace: u64,
    /// Whether that is the namespace of the thread that asked.
    pub in_own_namespace: bool,
    /// A process in that namespace that sees the mount: the one with the lowest number.
    pub process: Process,
    /// Where it is mounted, as that process sees it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "lossy"))]
    pub mount_point: PathBuf,
    /// Whether the directory that it is mounted on was removed (in another namespace).
    pub mount_point_deleted: bool,
    /// Which directory of the file system is mounted; `/` for the whole.
    #[cfg_attr(feature = "serde", serde(serialize_with = "lossy"))]
    pub root: PathBuf,
    /// The file system's type, such as `ext4`.
    pub file_system: String,
    /// The device's name as it was given when it was mounted: it can be out of date or mean nothing here.
    pub source: String,
    /// Whether the mount or its file system is read-only.
    pub read_only: bool,
    /// Where its unmounting goes to and comes from.
    pub propagation: Propagation,
    /// What is mounted on or below it, of whatever device: to be unmounted first.
    #[cfg_attr(feature = "serde", serde(serialize_with = "all_lossy"))]
    pub submounts: Vec<PathBuf>,
}

/// A process that uses files of a file system on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FileUser {
    /// Who uses them.
    pub process: Process,
    /// True when no mount that could be seen is the one by which they are used: it was unmounted lazily, or it is in a
    /// namespace that is listed as unseen. Nothing but closing the files frees the device then.
    pub detached: bool,
    /// The files.
    pub files: Vec<UsedFile>,
}

/// A file and how a process uses it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UsedFile {
    /// How it is used.
    pub usage: FileUse,
    /// Its path as the kernel shows it: below the root of its mount where that was detached, and with ` (deleted)` at
    /// the end where the file was removed.
    #[cfg_attr(feature = "serde", serde(serialize_with = "lossy"))]
    pub path: PathBuf,
}

/// How a process uses a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum FileUse {
    /// As its working directory.
    WorkingDirectory,
    /// As its root directory.
    RootDirectory,
    /// As the program that it runs.
    Executable,
    /// By this file descriptor.
    Descriptor(i32),
    /// Mapped into its memory.
    Mapping,
}

/// A process that has the block device itself open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DeviceUser {
    /// Who has it open.
    pub process: Process,
    /// By which descriptors or mappings, with the device's path as the process opened it.
    pub files: Vec<UsedFile>,
}

/// Swap space (`/proc/swaps`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Swap {
    /// What `swapoff` takes: a device or a file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "lossy"))]
    pub path: PathBuf,
    /// Whether it is a file on the file system on the device, and not the device.
    pub is_file: bool,
}

/// A user inside the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "user", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum KernelUser {
    /// A file system that is live (`/sys/fs/TYPE/DEVICE` is there) although neither a mount nor a user of it was seen:
    /// what keeps it can be an overlay mount that lies on it, a loop device, a file descriptor that is on its way
    /// through a socket, or a namespace that nobody is in.
    FileSystem {
        /// The file system's type, such as `ext4`.
        file_system: String,
    },
    /// The kernel's NFS server exports a directory on the device (`exportfs -u` gives it back).
    NfsExport {
        /// The directory.
        #[cfg_attr(feature = "serde", serde(serialize_with = "lossy"))]
        path: PathBuf,
        /// To whom: a host, a network or `*`.
        client: String,
    },
    /// bcache has registered the device, but no bcache device is there.
    Bcache,
}

/// A block device that uses another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StackedDevice {
    /// Its number.
    pub number: DeviceNumber,
    /// The kernel's name of it, such as `dm-5`.
    pub name: String,
    /// What made it.
    pub driver: StackedDriver,
}

/// What made a stacked device, and so what closes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "type", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum StackedDriver {
    /// A partition: nothing to close, it is listed for what is on it.
    Partition,
    /// A device-mapper device.
    Dm {
        /// Its name, such as `vg-lv`.
        name: String,
        /// Its UUID, such as `LVM-…`; empty where it was made without one.
        uuid: String,
        /// Which program made it, by its UUID.
        target: DmTarget,
        /// Whether it is suspended: reads and writes wait until it is resumed, and so does closing what is on it.
        suspended: bool,
    },
    /// A loop device: `losetup -d`.
    Loop {
        /// The device or file behind it, as the kernel shows it.
        #[cfg_attr(feature = "serde", serde(serialize_with = "lossy"))]
        backing_file: PathBuf,
    },
    /// A software RAID: `mdadm --stop`.
    Md {
        /// Its level, such as `raid1`.
        level: String,
    },
    /// A bcache device.
    Bcache,
    /// Another driver.
    Other,
}

/// Which program made a device-mapper device, by the prefix of its UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DmTarget {
    /// `CRYPT-`: LUKS and its like, `cryptsetup close`.
    Crypt,
    /// `LVM-`: a logical volume, `lvchange -an`.
    Lvm,
    /// `mpath-`: a multipath map, `multipath -f`.
    Multipath,
    /// `partN-`: a partition that kpartx made, `kpartx -d`.
    Partition,
    /// Any other: `dmsetup remove`.
    Other,
}

impl DmTarget {
    pub(super) fn of_uuid(uuid: &str) -> Self {
        match uuid.split_once('-').map_or("", |(prefix, _)| prefix) {
            "CRYPT" => Self::Crypt,
            "LVM" => Self::Lvm,
            "mpath" => Self::Multipath,
            prefix if prefix.strip_prefix("part").is_some_and(|number| number.parse::<u32>().is_ok()) => {
                Self::Partition
            }
            _ => Self::Other,
        }
    }
}

/// A path need not be UTF-8, JSON must be.
#[cfg(feature = "serde")]
pub(crate) fn lossy<S: serde::Serializer>(path: &std::path::Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

#[cfg(feature = "serde")]
fn all_lossy<S: serde::Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uuid_tells_who_made_a_dm_device() {
        for (uuid, target) in [
            ("CRYPT-LUKS2-0b9e6f3c5a394f7e9a531f7f0a3c2b11-luks-rbd", DmTarget::Crypt),
            ("LVM-FQ0aGd5Wm2", DmTarget::Lvm),
            ("mpath-3600508b400105e21", DmTarget::Multipath),
            ("part1-mpath-3600508b400105e21", DmTarget::Partition),
            ("partition-x", DmTarget::Other),
            ("stratis-1-private", DmTarget::Other),
            ("", DmTarget::Other),
        ] {
            assert_eq!(DmTarget::of_uuid(uuid), target, "{uuid}");
        }
    }
}
