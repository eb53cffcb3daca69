//! From what holds a device to what frees it.

use std::path::{Path, PathBuf};

use super::{Action, By, Remedy, Risk};
use crate::DeviceNumber;
use crate::holder::{Holder, HolderKind, Holders, KernelUser, Mount, Process, StackedDevice, StackedDriver, UsedFile};
use crate::krbd::Device;

/// What frees the device that `holders` are of, in the order in which it must be done: what is suspended is resumed,
/// then everything is closed from the top down, and `device` unmapped if it is given and the holders are its own; last,
/// the lossy ways for those that this leaves.
///
/// Each safe one fails where somebody still needs what it closes, so that all can be tried.
pub fn remedies(holders: &Holders, device: Option<&Device>) -> Vec<Remedy> {
    let device = device.filter(|device| device.number == holders.device());
    let mut remedies: Vec<Remedy> = holders.iter().filter_map(resumed).collect();
    for holder in holders {
        closed(holders, holder, &mut remedies);
    }
    if let Some(device) = device {
        remedies.push(by_library(Action::Unmap(Box::new(device.clone())), Risk::Safe, device.number));
    }
    remedies.extend(holders.iter().filter_map(|holder| lazily_unmounted(holders, holder)));
    remedies.extend(device.filter(|_| !holders.is_empty()).map(|device| unmapped_by_force(holders, device)));
    remedies
}

pub(super) fn unmapped_by_force(holders: &Holders, device: &Device) -> Remedy {
    let leaves = holders.iter().cloned().collect();
    let action = Action::ForceUnmap { device: Box::new(device.clone()), leaves };
    by_library(action, Risk::Lossy, device.number)
}

fn by_library(action: Action, risk: Risk, on: DeviceNumber) -> Remedy {
    Remedy { action, risk, by: By::Library, on: Some(on) }
}

fn by_hand(action: Action, risk: Risk, on: DeviceNumber) -> Remedy {
    Remedy { action, risk, by: By::Hand, on: Some(on) }
}

fn resumed(holder: &Holder) -> Option<Remedy> {
    match &holder.kind {
        HolderKind::Stacked(device @ StackedDevice { driver: StackedDriver::Dm { suspended: true, .. }, .. }) => {
            // Whoever suspended it may be at work on what is below: a snapshot, a move of its blocks.
            Some(by_hand(Action::Resume(device.clone()), Risk::ForAPerson, device.number))
        }
        _ => None,
    }
}

fn closed(holders: &Holders, holder: &Holder, remedies: &mut Vec<Remedy>) {
    let on = holder.on;
    let close_files = |process: &Process, files: &[UsedFile]| {
        let action = Action::CloseFiles { process: process.clone(), files: files.to_vec() };
        by_hand(action, Risk::ForAPerson, on)
    };
    let remedy = match &holder.kind {
        HolderKind::Files(user) => close_files(&user.process, &user.files),
        HolderKind::Device(user) => close_files(&user.process, &user.files),
        HolderKind::Kernel(KernelUser::FileSystem { file_system }) => {
            by_hand(Action::FindUser { file_system: file_system.clone() }, Risk::ForAPerson, on)
        }
        HolderKind::Kernel(KernelUser::NfsExport { path, client }) => {
            by_hand(Action::Unexport { path: path.clone(), client: client.clone() }, Risk::Safe, on)
        }
        HolderKind::Kernel(KernelUser::Bcache) => by_library(Action::Unregister, Risk::Safe, on),
        HolderKind::Mount(mount) => {
            remedies.extend(others_below(holders, mount).map(|path| {
                // It may be a tmpfs, which loses what is in it.
                let action = Action::UnmountBelow { path: path.clone(), mount: mount.clone() };
                by_hand(action, Risk::ForAPerson, on)
            }));
            if is_root(mount) {
                by_hand(Action::Unmount(mount.clone()), Risk::ForAPerson, on)
            } else {
                by_library(Action::Unmount(mount.clone()), Risk::Safe, on)
            }
        }
        HolderKind::Swap(swap) => by_library(Action::SwapOff(swap.clone()), Risk::Safe, on),
        HolderKind::Stacked(device) => match device.driver {
            StackedDriver::Partition => return,
            StackedDriver::Other => by_hand(Action::Close(device.clone()), Risk::ForAPerson, on),
            _ => by_library(Action::Close(device.clone()), Risk::Safe, on),
        },
    };
    remedies.push(remedy);
}

/// Unmounting a root makes it read-only instead (umount(2)); it goes when the processes do whose root it is.
fn is_root(mount: &Mount) -> bool {
    mount.mount_point == Path::new("/")
}

/// What is mounted under `mount` and is not among the holders, so that nothing else here unmounts it.
fn others_below<'a>(holders: &'a Holders, mount: &'a Mount) -> impl Iterator<Item = &'a PathBuf> {
    let is_holder = |path: &Path| {
        holders.iter().any(|holder| match &holder.kind {
            HolderKind::Mount(other) => {
                (other.namespace, other.mount_point.as_path()) == (mount.namespace, path) && other.id != mount.id
            }
            _ => false,
        })
    };
    mount.submounts.iter().filter(move |path| !is_holder(path))
}

/// Where `umount` finds the mount busy by what was seen: files are open in it, or something else is mounted below.
fn lazily_unmounted(holders: &Holders, holder: &Holder) -> Option<Remedy> {
    let HolderKind::Mount(mount) = &holder.kind else { return None };
    let has_open_files = holders.iter().any(|other| match &other.kind {
        HolderKind::Files(user) => other.on == holder.on && !user.detached,
        _ => false,
    });
    let is_busy = has_open_files || others_below(holders, mount).next().is_some();
    (is_busy && !is_root(mount)).then(|| by_library(Action::UnmountLazily(mount.clone()), Risk::Lossy, holder.on))
}
