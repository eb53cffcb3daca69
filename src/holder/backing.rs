//! Files that the kernel uses by itself: behind loop devices and swap space, and what the NFS server exports. The
//! kernel names them by paths, and this finds the devices that they are, or are on.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::host::{self, Host};
use super::kind::{Holder, HolderKind, KernelUser, Swap};
use super::mountinfo::Escaped;
use super::namespace::{Reading, Readings};
use super::parallel;
use super::stack::{DeviceNames, directory};
use super::unseen::Unseen;
use crate::DeviceNumber;
use crate::deadline::Deadline;

/// What uses files and devices by their paths, by the device that bears them.
#[derive(Debug, Default)]
pub(super) struct Backing {
    pub(super) loops: HashMap<DeviceNumber, Vec<DeviceNumber>>,
    pub(super) others: Vec<Holder>,
}

#[derive(Debug)]
enum User {
    Loop(DeviceNumber),
    Swap,
    Export { client: String },
}

impl Backing {
    pub(super) fn read(
        host: &Arc<Host>,
        names: &Arc<DeviceNames>,
        readings: &Arc<Readings>,
        deadline: Deadline,
        unseen: &mut Vec<Unseen>,
    ) -> Self {
        let mut users: Vec<(User, PathBuf)> = Vec::new();
        users.extend(loop_devices(host).into_iter().map(|(number, path)| (User::Loop(number), path)));
        users.extend(swaps(&host.read("swaps").unwrap_or_default()).into_iter().map(|path| (User::Swap, path)));
        let table = host.read("net/rpc/nfsd.export/content").unwrap_or_default();
        users.extend(exports(&table).into_iter().map(|(path, client)| (User::Export { client }, path)));

        let users = Arc::new(users);
        let (host, names, readings) = (Arc::clone(host), Arc::clone(names), Arc::clone(readings));
        let located = parallel::each(&users, deadline, move |(_, path)| locate(&host, &names, &readings, path));
        let mut backing = Self::default();
        for ((user, path), located) in users.iter().zip(located) {
            let Some(Located { device, is_file }) = located.flatten() else {
                unseen.push(Unseen::BackingFile { user: user.to_string(), path: path.clone() });
                continue;
            };
            let path = path.clone();
            let kind = match user {
                User::Loop(number) => {
                    backing.loops.entry(device).or_default().push(*number);
                    continue;
                }
                User::Swap => HolderKind::Swap(Swap { path, is_file }),
                User::Export { client } => HolderKind::Kernel(KernelUser::NfsExport { path, client: client.clone() }),
            };
            backing.others.push(Holder { on: device, kind });
        }
        backing
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loop(number) => write!(f, "loop device {number}"),
            Self::Swap => f.write_str("swap"),
            Self::Export { client } => write!(f, "NFS export to {client}"),
        }
    }
}

/// The loop devices that have a file, with its path.
fn loop_devices(host: &Host) -> Vec<(DeviceNumber, PathBuf)> {
    let numbers = host.names("dev/block").into_iter().filter_map(|name| name.parse::<DeviceNumber>().ok());
    numbers
        .filter_map(|number| {
            let path = host.attribute(directory(number).join("loop/backing_file"))?;
            Some((number, host::path_of(path)))
        })
        .collect()
}

/// The paths of `/proc/swaps` (`proc_swaps(5)`), its heading left out.
pub(super) fn swaps(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|byte| *byte == b'\n').skip(1);
    lines
        .filter_map(|line| line.split(|byte| matches!(byte, b' ' | b'\t')).next())
        .filter(|path| path.starts_with(b"/"))
        .map(|path| Escaped(path).path())
        .collect()
}

/// Paths and clients of the export table: `PATH CLIENT(OPTIONS)` and comments (`svc_export_show` in
/// `fs/nfsd/export.c`).
fn exports(text: &[u8]) -> Vec<(PathBuf, String)> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| line.starts_with(b"/"))
        .filter_map(|line| {
            let mut fields = line.split(|byte| matches!(byte, b' ' | b'\t'));
            let path = Escaped(fields.next()?).path();
            let client = fields.next()?.split(|byte| *byte == b'(').next()?;
            Some((path, Escaped(client).text()))
        })
        .collect()
}

/// The device that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Located {
    device: DeviceNumber,
    /// Whether the path is a file on the device, and not the device.
    is_file: bool,
}

/// The kernel shows a path without saying in which mount namespace it is meant: the caller's is tried first, then the
/// others, for one in which it exists.
fn locate(host: &Host, names: &DeviceNames, readings: &Readings, path: &Path) -> Option<Located> {
    let (path, is_deleted) = without_deleted(path);
    if let Some(device) = names.of_path(&path) {
        return Some(Located { device, is_file: false });
    }
    // What is deleted is found nowhere; the caller's namespace is then as good a guess as can be had.
    if is_deleted {
        return readings.all.first().and_then(|reading| mount_device(names, reading, &path));
    }
    readings.all.iter().find_map(|reading| located_in(host, names, reading, &path))
}

fn located_in(host: &Host, names: &DeviceNames, reading: &Reading, path: &Path) -> Option<Located> {
    let below_root = path.strip_prefix("/").ok()?;
    let status = host.status(Path::new(&reading.task.path("root")).join(below_root)).ok()?;
    match status.block_device {
        Some(device) => Some(Located { device, is_file: false }),
        // Not `status.on`, which is no device's number for btrfs.
        None => mount_device(names, reading, path),
    }
}

fn mount_device(names: &DeviceNames, reading: &Reading, path: &Path) -> Option<Located> {
    let line = reading.mount_of(path)?;
    let device = if line.file_system.0 == b"btrfs" { names.of_path(&line.source.path())? } else { line.device };
    Some(Located { device, is_file: true })
}

/// A path without the mark that the kernel puts behind removed files.
fn without_deleted(path: &Path) -> (PathBuf, bool) {
    let bytes = path.as_os_str().as_bytes();
    match bytes.strip_suffix(b" (deleted)") {
        Some(path) => (host::path_of(path.to_vec()), true),
        None => (path.to_owned(), false),
    }
}
