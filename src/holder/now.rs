//! Whether what a search found is still so, for those who are about to act on it.

use std::io;
use std::mem::discriminant;
use std::path::Path;

use super::backing;
use super::file_system::without_deleted;
use super::host::Host;
use super::kind::{Mount, StackedDevice, StackedDriver, Swap};
use super::mountinfo;
use super::stack;
use super::task::Task;
use crate::DeviceNumber;

/// How something is now that a search found before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Now {
    Same,
    Gone,
    /// There is something in its place, or it is in another place.
    Changed,
}

/// A mount, by its number, in the eyes of its process; an error where that cannot be asked any more.
pub(crate) fn mount_now(mount: &Mount) -> io::Result<Now> {
    let host = host()?;
    let task = Task { pid: mount.process.pid, tid: mount.process.tid };
    if host.namespace(&task.path("ns/mnt"))? != mount.namespace {
        return Err(io::ErrorKind::NotFound.into());
    }
    let text = host.read(&task.path("mountinfo"))?;
    Ok(match mountinfo::lines(&text).flatten().find(|line| line.id == mount.id) {
        None => Now::Gone,
        Some(line) if without_deleted(line.mount_point.path()).0 == mount.mount_point => Now::Same,
        Some(_) => Now::Changed,
    })
}

/// A device stacked on `on`.
pub(crate) fn stacked_now(device: &StackedDevice, on: DeviceNumber) -> io::Result<Now> {
    let host = host()?;
    let mut now = stack::describe(&host, device.number);
    // sysfs does not list loop devices among the holders of what is below them.
    let is_on = matches!(now.driver, StackedDriver::Loop { .. }) || stack::holders(&host, on).contains(&device.number);
    // Whether it is suspended is not who it is.
    if let (StackedDriver::Dm { suspended: now, .. }, StackedDriver::Dm { suspended: then, .. }) =
        (&mut now.driver, &device.driver)
    {
        *now = *then;
    }
    let is_gone = now.name.is_empty() || !is_on || discriminant(&now.driver) != discriminant(&device.driver);
    Ok(match now == *device {
        _ if is_gone => Now::Gone,
        true => Now::Same,
        false => Now::Changed,
    })
}

/// Swap space.
pub(crate) fn swap_now(swap: &Swap) -> io::Result<Now> {
    let is_in_use = backing::swaps(&host()?.read("swaps")?).contains(&swap.path);
    Ok(if is_in_use { Now::Same } else { Now::Gone })
}

fn host() -> io::Result<Host> {
    Host::open(Path::new("/proc"), Path::new("/sys"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holder::kind::Process;

    /// The first mount that this process sees.
    fn own() -> Mount {
        let host = host().unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let text = host.read("self/mountinfo").unwrap();
        let line = mountinfo::lines(&text).flatten().next().unwrap();
        Mount {
            id: line.id,
            namespace: host.namespace("self/ns/mnt").unwrap(),
            in_own_namespace: true,
            process: Process { pid, tid: None, comm: String::new(), container: None, pod: None },
            mount_point: line.mount_point.path(),
            mount_point_deleted: false,
            root: line.root.path(),
            file_system: line.file_system.text(),
            source: line.source.text(),
            read_only: line.is_read_only(),
            propagation: line.propagation,
            submounts: Vec::new(),
        }
    }

    #[test]
    fn a_mount_is_the_same_by_its_number_and_its_place() {
        assert_eq!(mount_now(&own()).unwrap(), Now::Same);
        assert_eq!(mount_now(&Mount { id: u64::MAX, ..own() }).unwrap(), Now::Gone);
        assert_eq!(mount_now(&Mount { mount_point: "/elsewhere".into(), ..own() }).unwrap(), Now::Changed);
    }

    #[test]
    fn a_process_that_is_gone_or_moved_on_cannot_be_asked() {
        let moved = Mount { namespace: 1, ..own() };
        let gone = Mount { process: Process { pid: i32::MAX, ..own().process }, ..own() };
        for mount in [moved, gone] {
            assert_eq!(mount_now(&mount).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn what_is_no_device_and_no_swap_any_more_is_gone() {
        let driver = StackedDriver::Loop { backing_file: "/x".into() };
        let device = StackedDevice { number: DeviceNumber::new(4095, 7), name: "loop7".into(), driver };
        assert_eq!(stacked_now(&device, DeviceNumber::new(4095, 0)).unwrap(), Now::Gone);
        assert_eq!(swap_now(&Swap { path: "/no/swap".into(), is_file: true }).unwrap(), Now::Gone);
    }
}
