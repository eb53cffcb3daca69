//! Whether this process can map here, looked at without mapping.

use std::fmt;
use std::fs;
use std::path::Path;

use super::cephx_key::CephxKey;
use super::{Krbd, ModuleState, sys};
use crate::text::has_capability;
use crate::thread::without_signals;

/// What stands in the way of a map by this process, each looked at by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Preflight {
    /// The kernel's driver.
    pub module: ModuleState,
    /// Whether the bus can be written.
    pub sysfs: SysfsAccess,
    /// Whether this process has CAP_SYS_ADMIN in the initial user namespace; `None` if `/proc` does not say.
    pub privileged: Option<bool>,
    /// The kernel's keyring, by a trial with a key of zeros that goes at once.
    pub key_ring: KeyRing,
    /// Where the device nodes would appear.
    pub nodes: Nodes,
    /// The network namespace, from which the kernel's connections to the cluster would come.
    pub network: Network,
}

/// Whether the file that maps can be opened for writing; it was opened, nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum SysfsAccess {
    /// It can.
    Writable,
    /// `/sys` is mounted read-only.
    ReadOnly,
    /// The file's mode forbids it.
    Forbidden,
    /// It is not there: the module is not loaded.
    Missing,
    /// Another errno.
    Other(i32),
}

/// Whether a cephx key can be handed to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum KeyRing {
    /// It can.
    Usable,
    /// add_key(2) is forbidden, as by a container's filter.
    Forbidden,
    /// The kernel has no key type `ceph`: libceph is not loaded.
    NoKeyType,
    /// Another errno.
    Other(i32),
}

/// Whether device nodes appear in the node directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Nodes {
    /// It is the kernel's devtmpfs, where they appear by themselves.
    Devtmpfs,
    /// It is another file system: somebody must make them, or [`NodePolicy::Create`](super::NodePolicy::Create).
    Other,
    /// It cannot be told.
    Unknown,
}

/// Whether this process is in the network namespace of process 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Network {
    /// It is.
    Initial,
    /// It is in another: the monitors must be reachable from there for as long as the mapping lives, and udev's events
    /// are not seen there, which does not matter to this library.
    Other,
    /// It cannot be told.
    Unknown,
}

impl Krbd {
    /// Looks at what a map needs, and changes nothing.
    pub fn preflight(&self) -> Preflight {
        Preflight {
            module: self.module(),
            sysfs: self.sysfs_access(),
            privileged: is_privileged(&self.proc),
            key_ring: key_ring(),
            nodes: nodes(&self.proc, &self.sysfs.dev),
            network: network(&self.proc),
        }
    }

    /// Whether this process can map, as far as this host can tell: nothing in [`preflight`](Self::preflight) stands in
    /// the way.
    pub fn can_map(&self) -> bool {
        self.preflight().obstacles().is_empty()
    }

    fn sysfs_access(&self) -> SysfsAccess {
        match fs::OpenOptions::new().write(true).open(self.bus_file("add")) {
            Ok(_) => SysfsAccess::Writable,
            Err(error) => match error.raw_os_error() {
                Some(libc::EROFS) => SysfsAccess::ReadOnly,
                Some(libc::EACCES | libc::EPERM) => SysfsAccess::Forbidden,
                Some(libc::ENOENT) => SysfsAccess::Missing,
                errno => SysfsAccess::Other(errno.unwrap_or(libc::EIO)),
            },
        }
    }
}

impl Preflight {
    /// What certainly prevents a map with a key, in plain words; what is not known is not in it.
    pub fn obstacles(&self) -> Vec<&'static str> {
        let mut obstacles = Vec::new();
        if self.module == ModuleState::NotLoaded {
            obstacles.push("the kernel's rbd module is not loaded");
        }
        match self.sysfs {
            SysfsAccess::ReadOnly => obstacles.push("/sys is mounted read-only"),
            SysfsAccess::Forbidden => obstacles.push("the rbd bus in /sys may not be written"),
            SysfsAccess::Other(_) => obstacles.push("the rbd bus in /sys cannot be opened"),
            SysfsAccess::Missing | SysfsAccess::Writable => {}
        }
        if self.privileged == Some(false) {
            obstacles.push("CAP_SYS_ADMIN in the initial user namespace is missing");
        }
        match self.key_ring {
            KeyRing::Forbidden => obstacles.push("add_key(2) is forbidden"),
            KeyRing::Other(_) => obstacles.push("the kernel's keyring cannot be used"),
            // Without the module that is what it says; with it, another module is missing.
            KeyRing::NoKeyType if self.module != ModuleState::NotLoaded => {
                obstacles.push("the kernel has no key type ceph");
            }
            KeyRing::NoKeyType | KeyRing::Usable => {}
        }
        obstacles
    }
}

impl fmt::Display for Preflight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.obstacles().as_slice() {
            [] => f.write_str("nothing stands in the way of a map"),
            obstacles => f.write_str(&obstacles.join("; ")),
        }
    }
}

/// CAP_SYS_ADMIN, and the user namespace that the kernel started with.
pub(super) fn is_privileged(proc: &Path) -> Option<bool> {
    const CAP_SYS_ADMIN: u32 = 21;
    let has = has_capability(&fs::read(proc.join("self/status")).ok()?, CAP_SYS_ADMIN)?;
    let map = fs::read_to_string(proc.join("self/uid_map")).ok()?;
    // The initial namespace maps every id to itself, in one line.
    let is_initial = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    Some(has && is_initial)
}

/// A trial on a thread of its own: its keyring goes with it.
fn key_ring() -> KeyRing {
    let trial = || sys::add_ceph_key("client.rbd-preflight", &CephxKey::of_zeros());
    let started = without_signals(|| std::thread::Builder::new().name("krbd-preflight".into()).spawn(trial));
    let result = started.map(std::thread::JoinHandle::join);
    match result {
        Ok(Ok(Ok(()))) => KeyRing::Usable,
        Ok(Ok(Err(error))) | Err(error) => match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => KeyRing::Forbidden,
            Some(libc::ENODEV) => KeyRing::NoKeyType,
            errno => KeyRing::Other(errno.unwrap_or(libc::EIO)),
        },
        Ok(Err(_)) => KeyRing::Other(libc::EIO),
    }
}

/// The file system that is mounted on the node directory: the last one there in mountinfo (proc(5)).
fn nodes(proc: &Path, dev: &Path) -> Nodes {
    let Ok(mounts) = fs::read_to_string(proc.join("self/mountinfo")) else { return Nodes::Unknown };
    let mut mounted = mounts.lines().filter_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let at = mount.split(' ').nth(4)?;
        (Path::new(at) == dev).then(|| file_system.split(' ').next())?
    });
    match mounted.next_back() {
        Some("devtmpfs") => Nodes::Devtmpfs,
        _ => Nodes::Other,
    }
}

fn network(proc: &Path) -> Network {
    let namespace = |process: &str| fs::read_link(proc.join(process).join("ns/net")).ok();
    match (namespace("self"), namespace("1")) {
        (Some(own), Some(first)) if own == first => Network::Initial,
        (Some(_), Some(_)) => Network::Other,
        _ => Network::Unknown,
    }
}
