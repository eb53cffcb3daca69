//! Once through the remedies, from the top of the stack down.

use std::collections::HashSet;

use rustix::mount::UnmountFlags;

use super::outcome::{Outcome, Step};
use super::plan::{remedies, unmapped_by_force};
use super::release::Policy;
use super::{Action, By, Remedy, file_system, stacked};
use crate::DeviceNumber;
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::holder::{HolderKind, Holders, Mount};
use crate::krbd::{Device, Krbd, UnmapOptions};

const OPERATION: &str = "release device";

/// How far it goes: each allows what those before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Safe,
    Lossy,
    Force,
}

#[derive(Debug)]
pub(super) struct Pass<'a> {
    pub(super) krbd: &'a Krbd,
    pub(super) policy: &'a Policy,
    pub(super) level: Level,
    pub(super) holders: &'a Holders,
    pub(super) deadline: Deadline,
}

impl Pass<'_> {
    pub(super) fn run(&self, device: Option<&Device>) -> Vec<Step> {
        let mut plan = remedies(self.holders, device);
        let is_force = |remedy: &Remedy| matches!(remedy.action, Action::ForceUnmap { .. });
        if let Some(device) = device
            && self.level == Level::Force
            && !plan.iter().any(is_force)
        {
            // The kernel says that it is busy, and nobody was seen.
            plan.push(unmapped_by_force(self.holders, device));
        }
        let suspended: HashSet<DeviceNumber> = plan.iter().filter_map(suspended).collect();
        let mut in_use: HashSet<DeviceNumber> = HashSet::new();
        let mut steps = Vec::with_capacity(plan.len());
        for remedy in plan {
            let outcome = self.outcome(&remedy, &in_use, &suspended);
            if let Some(on) = remedy.on.filter(|_| !outcome.is_success()) {
                in_use.extend(self.with_those_below(on));
            }
            steps.push(Step { remedy, outcome });
        }
        steps
    }

    fn outcome(&self, remedy: &Remedy, in_use: &HashSet<DeviceNumber>, suspended: &HashSet<DeviceNumber>) -> Outcome {
        // Closing flushes, which waits for a suspended device with no end.
        let waits = remedy.on.is_some_and(|on| self.with_those_below(on).any(|device| suspended.contains(&device)));
        let is_in_use = match &remedy.action {
            Action::Close(device) => waits || in_use.contains(&device.number),
            Action::Unmap(device) => in_use.contains(&device.number),
            Action::ForceUnmap { .. } => false,
            _ => waits,
        };
        match &remedy.action {
            _ if remedy.by == By::Hand => Outcome::LeftToAPerson,
            Action::UnmountLazily(_) if !self.policy.lossy || self.level < Level::Lossy => Outcome::NotAllowed,
            Action::ForceUnmap { .. } if self.level < Level::Force => Outcome::NotAllowed,
            _ if is_in_use => Outcome::InUse,
            _ if self.deadline.is_over() => Outcome::TooLate,
            _ => self.carry_out(remedy).unwrap_or_else(Outcome::Failed),
        }
    }

    fn carry_out(&self, remedy: &Remedy) -> Result<Outcome> {
        let deadline = self.deadline;
        match (&remedy.action, remedy.on) {
            (Action::Unmount(mount), _) => self.unmount(mount, UnmountFlags::empty()),
            (Action::UnmountLazily(mount), _) => self.unmount(mount, UnmountFlags::DETACH),
            (Action::SwapOff(swap), Some(on)) => {
                let (swap, mounts) = (swap.clone(), self.mounts_on(on));
                self.aside(move || file_system::swapoff(&swap, on, &mounts))
            }
            (Action::Close(device), Some(on)) => {
                let device = device.clone();
                self.aside(move || stacked::close(&device, on, deadline))
            }
            (Action::Unregister, Some(on)) => self.aside(move || stacked::unregister(on, deadline)),
            (Action::Unmap(device), _) => self.unmap(device, UnmapOptions::new()),
            (Action::ForceUnmap { device, .. }, _) => self.unmap(device, UnmapOptions::new().force()),
            _ => Ok(Outcome::LeftToAPerson),
        }
    }

    /// On a thread of its own, which the kernel may hold, and which may leave for another mount namespace.
    fn aside(&self, work: impl FnOnce() -> Result<Outcome> + Send + 'static) -> Result<Outcome> {
        let done = self.deadline.wait_for("rbd-release", work);
        done.map_err(|error| Error::from_io("start a thread", error))?.unwrap_or_else(|| {
            let error = Error::new(ErrorKind::TimedOut, OPERATION).with_object(self.holders.device());
            Err(error.with_details(Details::StillRunning))
        })
    }

    fn unmount(&self, mount: &Mount, flags: UnmountFlags) -> Result<Outcome> {
        let mount = mount.clone();
        self.aside(move || file_system::unmount(&mount, flags))
    }

    fn unmap(&self, device: &Device, options: UnmapOptions) -> Result<Outcome> {
        // Whoever keeps it busy is looked for before it is tried again.
        let mut options = options.busy_retries(0);
        if let Some(left) = self.deadline.left() {
            options = options.deadline(left);
        }
        match self.krbd.unmap(device, &options) {
            Ok(_) => Ok(Outcome::Done),
            Err(error) if error.kind() == ErrorKind::NotMapped => Ok(Outcome::Gone),
            Err(error) if error.kind() == ErrorKind::Changed => Ok(Outcome::Changed),
            Err(error) => Err(error),
        }
    }

    fn mounts_on(&self, on: DeviceNumber) -> Vec<Mount> {
        let mounts = self.holders.iter().filter(|holder| holder.on == on).filter_map(|holder| match &holder.kind {
            HolderKind::Mount(mount) => Some(mount.clone()),
            _ => None,
        });
        mounts.collect()
    }

    /// A device, what it lies on, and so on down.
    fn with_those_below(&self, device: DeviceNumber) -> impl Iterator<Item = DeviceNumber> {
        let below = |device: &DeviceNumber| {
            self.holders.iter().find_map(|holder| match &holder.kind {
                HolderKind::Stacked(stacked) if stacked.number == *device => Some(holder.on),
                _ => None,
            })
        };
        std::iter::successors(Some(device), below)
    }
}

fn suspended(remedy: &Remedy) -> Option<DeviceNumber> {
    match &remedy.action {
        Action::Resume(device) => Some(device.number),
        _ => None,
    }
}
