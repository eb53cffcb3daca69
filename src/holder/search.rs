//! A search for holders: what it looks at, in which order, and how its time is shared out.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Holders;
use super::backing::Backing;
use super::file_system::FileSystems;
use super::host::{self, Host};
use super::kind::{Holder, HolderKind, KernelUser, Process};
use super::mountinfo::{self, MountLine};
use super::namespace::{Reading, Readings};
use super::newcomer;
use super::open_file::{self, Wanted};
use super::parallel;
use super::stack::{self, DeviceNames, Stack};
use super::unseen::{ProcessPart, Unseen, UnseenReason};
use crate::DeviceNumber;
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::text::has_capability;

const OPERATION: &str = "find holders of device";
/// `PROC_PID_INIT_INO` in the kernel's `include/linux/proc_ns.h`.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// `CAP_SYS_PTRACE` in `linux/capability.h`.
const CAP_SYS_PTRACE: u32 = 19;

/// How to search; made by [`Holders::of`](super::Holders::of).
#[derive(Debug, Clone)]
#[must_use]
pub struct Search {
    device: DeviceNumber,
    deadline: Duration,
    mounts_only: bool,
    proc: PathBuf,
    sys: PathBuf,
}

impl Search {
    pub(super) fn new(device: DeviceNumber) -> Self {
        Self {
            device,
            deadline: Duration::from_secs(5),
            mounts_only: false,
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
        }
    }

    /// The device that is asked about.
    pub fn device(&self) -> DeviceNumber {
        self.device
    }

    /// How long the whole search may take; 5 seconds where it is not set. What was not looked at by then is among
    /// [`Holders::unseen`](super::Holders::unseen).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Looks for mounts, stacked devices and swap only, not into every process's files: several times faster, and never
    /// complete.
    pub fn mounts_only(mut self) -> Self {
        self.mounts_only = true;
        self
    }

    /// Reads proc and sysfs from other directories than `/proc` and `/sys`: those of the host as mounted into a
    /// container, or a tree made by a test.
    pub fn root(mut self, proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Self {
        self.proc = proc.into();
        self.sys = sys.into();
        self
    }

    /// Searches. The device is never opened.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] where not even a part of the answer could be had before the deadline; any other kind
    /// where proc cannot be read at all. What else cannot be read is no error but among
    /// [`Holders::unseen`](super::Holders::unseen).
    pub fn run(self) -> Result<Holders> {
        let (device, allowed) = (self.device, self.deadline);
        // Reading sysfs can block too: the caller waits for a thread, and is free when its time is over. A part is kept
        // back, to put the answer together when all else used its time up.
        let deadline = Deadline::after(Some(allowed - allowed / 8));
        let found = Deadline::after(Some(allowed)).wait_for("rbd-holder", move || self.look(deadline));
        found.map_err(|error| failed(error, device))?.unwrap_or_else(|| {
            let error = Error::new(ErrorKind::TimedOut, OPERATION).with_object(device);
            Err(error.with_details(Details::StillRunning))
        })
    }

    fn look(&self, deadline: Deadline) -> Result<Holders> {
        let host = Host::open(&self.proc, &self.sys).map_err(|error| failed(error, self.device))?;
        let pids = host.processes().map_err(|error| failed(error, self.device))?;
        let (host, pids) = (Arc::new(host), Arc::new(pids));
        let mut unseen = Vec::new();

        // Half of the time is left to the files, should reading the mounts hang.
        let half = Deadline::after(deadline.left().map(|left| left / 2));
        let readings = Arc::new(Readings::read(&host, &pids, half, &mut unseen));
        let names = Arc::new(DeviceNames::read(&host));
        let backing = Backing::read(&host, &names, &readings, half, &mut unseen);
        let stack = Stack::read(&host, self.device, &backing.loops);
        let (file_systems, mut holders) = FileSystems::read(&host, &stack, &names, &readings, &mut unseen);
        holders.extend(backing.others.into_iter().filter(|holder| stack.contains(holder.on)));
        holders.extend(bcache_without_device(&host, &stack));
        let root_name = stack::name(&host, self.device);
        if root_name.is_none() {
            let path = self.sys.join(stack::directory(self.device));
            unseen.push(Unseen::File { path, reason: UnseenReason::Gone });
        }
        report_limits(&host, &readings, &mut unseen);

        let file_systems = Arc::new(file_systems);
        let wanted = (!self.mounts_only).then(|| Arc::new(Wanted::new(&host, &stack, &file_systems, &readings)));
        match &wanted {
            Some(wanted) => self.look_into_files(&host, &pids, wanted, deadline, &mut holders, &mut unseen),
            None => unseen.push(Unseen::FilesNotAskedFor),
        }
        newcomer::look_at(&host, &pids, &readings, wanted.as_ref(), deadline, &mut holders, &mut unseen);
        for (on, file_system) in file_systems.without_user(&holders) {
            unseen.push(Unseen::FileSystemUser { file_system: file_system.clone() });
            holders.push(Holder { on, kind: HolderKind::Kernel(KernelUser::FileSystem { file_system }) });
        }
        Ok(Holders { device: self.device, name: root_name, holders: in_closing_order(&stack, holders), unseen })
    }

    fn look_into_files(
        &self,
        host: &Arc<Host>,
        pids: &Arc<Vec<i32>>,
        wanted: &Arc<Wanted>,
        deadline: Deadline,
        holders: &mut Vec<Holder>,
        unseen: &mut Vec<Unseen>,
    ) {
        let (reader, target) = (Arc::clone(host), Arc::clone(wanted));
        let answers = parallel::each(pids, deadline, move |pid| open_file::find(&reader, &target, *pid));
        let mut kept: HashSet<u64> = HashSet::new();
        for (pid, answer) in pids.iter().zip(answers) {
            match answer.unwrap_or(Err(UnseenReason::TimedOut)) {
                Ok(found) => {
                    holders.extend(found.holders);
                    for (number, task, descriptor) in found.namespaces {
                        // One file is enough to find it by.
                        if kept.insert(number) {
                            let file = self.proc.join(task.path(&format!("fd/{descriptor}")));
                            unseen.push(Unseen::Namespace { number, file, process: task.describe(host) });
                        }
                    }
                }
                Err(reason) => unseen.push(Unseen::Process { pid: *pid, part: ProcessPart::Files, reason }),
            }
        }
    }
}

fn failed(error: std::io::Error, device: DeviceNumber) -> Error {
    Error::from_io(OPERATION, error).with_object(device)
}

/// The number of the block device that a node stands for. The node is looked at, not opened.
pub(super) fn number_of_node(path: &Path) -> Result<DeviceNumber> {
    const OPERATION: &str = "look at device node";
    let status = host::status_at(rustix::fs::CWD, path)
        .map_err(|error| Error::from_io(OPERATION, error).with_object(path.display()))?;
    status.block_device.ok_or_else(|| Error::new(ErrorKind::NotBlockDevice, OPERATION).with_object(path.display()))
}

/// bcache takes a device when it is registered, before and after there is a bcache device on it.
fn bcache_without_device(host: &Host, stack: &Stack) -> Vec<Holder> {
    let holds =
        |device: DeviceNumber| stack.layers.iter().any(|layer| layer.on == device && layer.device.number != device);
    let devices = stack.layers.iter().map(|layer| layer.device.number);
    devices
        .filter(|device| !holds(*device) && host.sys(stack::directory(*device).join("bcache")).is_dir())
        .filter(|device| stack::name(host, *device).is_some_and(|name| !name.starts_with("bcache")))
        .map(|on| Holder { on, kind: HolderKind::Kernel(KernelUser::Bcache) })
        .collect()
}

/// Says which processes proc does not even list.
fn report_limits(host: &Host, readings: &Readings, unseen: &mut Vec<Unseen>) {
    // Another user may not look at process 1; the own namespace says the same unless proc is another container's.
    let namespace = host.namespace("1/ns/pid").or_else(|_| host.namespace("self/ns/pid"));
    if namespace.ok() != Some(FIRST_PID_NAMESPACE) {
        unseen.push(Unseen::OtherPidNamespaces);
    }
    // Linux before 5.8 does not tell a mount's number; proc is then where it always is.
    let proc = host.status(".").ok().and_then(|status| status.mount);
    let is_proc = |line: &MountLine<'_>| match proc {
        Some(mount) => line.id == mount,
        None => line.mount_point.0 == b"/proc",
    };
    let hides = readings.all.iter().flat_map(Reading::lines).find(is_proc).is_some_and(|line| {
        // 1 lists the processes and denies their files, which is seen process by process.
        let hidepid = mountinfo::option_value(line.super_options, b"hidepid");
        !matches!(hidepid, None | Some(b"0" | b"off" | b"1" | b"noaccess"))
    });
    let status = host.read("thread-self/status").or_else(|_| host.read("self/status")).unwrap_or_default();
    if hides && has_capability(&status, CAP_SYS_PTRACE) != Some(true) {
        unseen.push(Unseen::HiddenProcesses);
    }
}

/// Each device's holders before the device itself, and what uses a file system before its mounts.
fn in_closing_order(stack: &Stack, holders: Vec<Holder>) -> Vec<Holder> {
    let mut ordered: Vec<Holder> = Vec::with_capacity(holders.len() + stack.layers.len());
    let mut left = holders;
    for layer in &stack.layers {
        let number = layer.device.number;
        let (mut own, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|holder| holder.on == number);
        left = others;
        own.reverse();
        own.sort_by_key(|holder| rank(&holder.kind));
        ordered.append(&mut own);
        let is_asked_for = layer.on == number;
        let is_idle_partition = matches!(layer.device.driver, super::StackedDriver::Partition)
            && ordered.iter().all(|holder| holder.on != number);
        if !is_asked_for && !is_idle_partition {
            ordered.push(Holder { on: layer.on, kind: HolderKind::Stacked(layer.device.clone()) });
        }
    }
    ordered
}

/// Files come before the mounts by which they are used. Of the mounts of a namespace the deeper comes first; sorting is
/// stable, so of two at one place the later one does, which lies on the other.
fn rank(kind: &HolderKind) -> (u8, u64, i64) {
    let task = |step, process: &Process| {
        (step, u64::try_from(process.pid).unwrap_or_default(), process.tid.map_or(0, i64::from))
    };
    match kind {
        HolderKind::Files(user) => task(0, &user.process),
        HolderKind::Kernel(_) => (1, 0, 0),
        HolderKind::Swap(swap) => (if swap.is_file { 2 } else { 5 }, 0, 0),
        HolderKind::Mount(mount) => {
            let depth = mount.mount_point.components().count();
            let namespace = if mount.in_own_namespace { 0 } else { mount.namespace };
            (3, namespace, -i64::try_from(depth).unwrap_or(i64::MAX))
        }
        HolderKind::Device(user) => task(4, &user.process),
        HolderKind::Stacked(_) => (6, 0, 0),
    }
}
