//! What can be done, and to what.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::address::EntityAddress;
use crate::holder::{
    DmTarget, Holder, HolderKind, Mount, Process, Shown, StackedDevice, StackedDriver, Swap, UsedFile, list_files,
};
use crate::krbd::Device;
use crate::lock::Locker;
use crate::watcher::Watcher;

/// What a [`Remedy`](super::Remedy) does, and to what.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "action", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Action {
    /// A process closes files of the file system on the device, or the device itself; most often by ending.
    CloseFiles {
        /// The process.
        process: Process,
        /// What it must close.
        files: Vec<UsedFile>,
    },
    /// Somebody finds out what the kernel keeps a file system live for, without a mount or a user that was seen.
    FindUser {
        /// The file system's type, such as `ext4`.
        file_system: String,
    },
    /// A suspended device-mapper device is resumed (`dmsetup resume`): whatever is closed above it waits until then.
    Resume(StackedDevice),
    /// The kernel's NFS server stops exporting a directory on the device (`exportfs -u`).
    Unexport {
        /// The directory.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::holder::lossy"))]
        path: PathBuf,
        /// To whom it is exported: a host, a network or `*`.
        client: String,
    },
    /// Another file system is unmounted, which is mounted on or below a mount of this one.
    UnmountBelow {
        /// Where it is mounted, as the process of `mount` sees it.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::holder::lossy"))]
        path: PathBuf,
        /// The mount that it is in the way of.
        mount: Mount,
    },
    /// `swapoff`: what is swapped out goes back to memory.
    SwapOff(Swap),
    /// `umount` in the mount's namespace, and with it wherever that propagates (`mount_namespaces(7)`).
    Unmount(Mount),
    /// `umount --lazy` in the mount's namespace: it goes out of sight with all that is mounted below it. What is open
    /// in it stays open, and keeps the device, until it is closed.
    UnmountLazily(Mount),
    /// A device stacked on it is closed: by an ioctl of dm or loop, or by the file in sysfs of md or bcache.
    Close(StackedDevice),
    /// bcache lets go of a device that it has registered, with no bcache device on it.
    Unregister,
    /// `rbd unmap`.
    Unmap(Box<Device>),
    /// `rbd unmap -o force`: what was not written back is lost.
    ForceUnmap {
        /// The mapping.
        device: Box<Device>,
        /// What stays behind, on a device that is gone: every use of it fails until it is closed in turn.
        leaves: Vec<Holder>,
    },
    /// The cluster forgets the watch of a client that does not answer, once it has waited for the watch's time-out
    /// (`Survey::wait_until_unused`). Its lock stays, and it may come back.
    WaitForWatch(Watcher),
    /// Whoever runs a client that is not a mapping of this host has it close the image there, or unmap it.
    CloseThere {
        /// The client, such as `client.4235`, with its address.
        client: String,
        /// Where it is.
        place: String,
    },
    /// The cluster refuses a client from now on (`Fence`), and its lock on the image is broken. What it has not written
    /// is lost, and so is its access to everything else in the cluster.
    Fence {
        /// What goes on the blocklist: one client, by IP address and nonce.
        address: EntityAddress,
        /// Its watches on the image.
        watches: Vec<Watcher>,
        /// The image's mappings on this host that are its.
        devices: Vec<Device>,
        /// Whether the client is on this host.
        this_host: bool,
    },
    /// A lock is broken whose holder does not watch the image any more (`Image::break_lock`).
    BreakLock(Locker),
}

impl fmt::Display for Action {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CloseFiles { process, files } => write!(f, "{process} must close {}", list_files(files)),
            Self::FindUser { file_system } => write!(
                f,
                "find what keeps the {file_system} file system live: an overlay on it, a descriptor on its way through a \
                 socket, or a mount namespace that nobody is in"
            ),
            Self::Resume(device) => write!(f, "resume {device}"),
            Self::Unexport { path, client } => write!(f, "unexport {} to {client}", Shown(path)),
            Self::UnmountBelow { path, mount } => {
                write!(f, "unmount {}, another file system under {}", Shown(path), Place(mount))
            }
            Self::SwapOff(swap) => write!(f, "swapoff {}", Shown(&swap.path)),
            Self::Unmount(mount) => write!(f, "unmount {}", Place(mount)),
            Self::UnmountLazily(mount) => {
                write!(f, "unmount {} lazily, what is open there stays open", Place(mount))
            }
            Self::Close(device) => write!(f, "{} {device}", verb(&device.driver)),
            Self::Unregister => f.write_str("unregister from bcache"),
            Self::Unmap(device) => write!(f, "unmap {device}"),
            Self::ForceUnmap { device, leaves } => {
                write!(f, "unmap {device} by force, what was not written back is lost")?;
                match mounts(leaves) {
                    0 => Ok(()),
                    1 => f.write_str(", 1 mount stays and fails"),
                    count => write!(f, ", {count} mounts stay and fail"),
                }
            }
            Self::WaitForWatch(watcher) => {
                write!(f, "wait until the watch of client.{} at {} has expired", watcher.client, watcher.address)?;
                match watcher.timeout {
                    Some(timeout) => write!(f, ", {} s after its last sign of life", timeout.as_secs()),
                    None => Ok(()),
                }
            }
            Self::CloseThere { client, place } => write!(f, "close the image or unmap it at {client}, on {place}"),
            Self::Fence { address, watches, devices, this_host } => {
                write!(f, "fence {address}: what it has not written is lost, in all its images")?;
                match watches.len() {
                    0 => {}
                    1 => f.write_str(", 1 watch of this one")?,
                    count => write!(f, ", {count} watches of this one")?,
                }
                devices.iter().try_for_each(|device| write!(f, ", {device}"))?;
                f.write_str(if *this_host { ", on this host" } else { "" })
            }
            Self::BreakLock(locker) => write!(f, "break the lock {:?} of {}", locker.cookie, locker.client),
        }
    }
}

fn mounts(holders: &[Holder]) -> usize {
    holders.iter().filter(|holder| matches!(holder.kind, HolderKind::Mount(_))).count()
}

/// In the words of the program that does it.
fn verb(driver: &StackedDriver) -> &'static str {
    match driver {
        StackedDriver::Dm { target: DmTarget::Lvm, .. } => "deactivate",
        StackedDriver::Dm { target: DmTarget::Other | DmTarget::Partition, .. } => "remove",
        StackedDriver::Loop { .. } => "detach",
        StackedDriver::Md { .. } | StackedDriver::Bcache => "stop",
        _ => "close",
    }
}

/// Where a mount is, and in whose eyes.
struct Place<'a>(&'a Mount);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(mount) = self;
        write!(f, "{}", Shown(Path::new(&mount.mount_point)))?;
        if mount.in_own_namespace { Ok(()) } else { write!(f, " in the mount namespace of {}", mount.process) }
    }
}
