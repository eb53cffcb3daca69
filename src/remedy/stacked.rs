//! Closing devices that are stacked on others.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};

use super::outcome::Outcome;
use super::sys::{self, DmName};
use crate::DeviceNumber;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::holder::{Now, StackedDevice, StackedDriver, stacked_now, status_at};

/// How often it is looked whether a device that goes in its own time is gone.
const POLL: Duration = Duration::from_millis(10);

/// Closes a device that lies on `on`.
pub(super) fn close(device: &StackedDevice, on: DeviceNumber, deadline: Deadline) -> Result<Outcome> {
    let failed = |error| Error::from_io("close", error).with_object(device);
    match stacked_now(device, on).map_err(failed)? {
        Now::Same => {}
        Now::Gone => return Ok(Outcome::Gone),
        Now::Changed => return Ok(Outcome::Changed),
    }
    match &device.driver {
        StackedDriver::Dm { name, uuid, .. } => remove_dm(name, uuid),
        StackedDriver::Loop { .. } => clear_loop(device),
        // As STOP_ARRAY does (Documentation/admin-guide/md.rst); the node need not be there.
        StackedDriver::Md { .. } => write(&sys(device.number).join("md/array_state"), "clear"),
        // Documentation/admin-guide/bcache.rst
        StackedDriver::Bcache => write(&sys(device.number).join("bcache/stop"), "1"),
        StackedDriver::Partition | StackedDriver::Other => Err(io::ErrorKind::Unsupported.into()),
    }
    .map_err(failed)?;
    let is_gone = || stacked_now(device, on).map(|now| now != Now::Same);
    wait(is_gone, deadline, failed)
}

/// Makes bcache let go of a device: of the cache set, where it is a cache.
pub(super) fn unregister(on: DeviceNumber, deadline: Deadline) -> Result<Outcome> {
    let failed = |error| Error::from_io("unregister from bcache", error).with_object(on);
    let directory = sys(on).join("bcache");
    if !directory.exists() {
        return Ok(Outcome::Gone);
    }
    let set = directory.join("set/stop");
    let stop = if set.exists() { set } else { directory.join("stop") };
    write(&stop, "1").map_err(failed)?;
    wait(|| Ok(!directory.exists()), deadline, failed)
}

/// Some drivers answer before they are through, or only make a note of it where somebody has the device open.
fn wait(
    is_gone: impl Fn() -> io::Result<bool>,
    deadline: Deadline,
    failed: impl Fn(io::Error) -> Error,
) -> Result<Outcome> {
    while !is_gone().map_err(&failed)? {
        if deadline.is_over() {
            return Err(failed(io::Error::from_raw_os_error(libc::EBUSY))
                .with_kind(ErrorKind::TimedOut)
                .with_hint("it goes when whoever has it open closes it"));
        }
        std::thread::sleep(POLL);
    }
    Ok(Outcome::Done)
}

fn sys(number: DeviceNumber) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{number}"))
}

/// One write to a file of sysfs.
fn write(file: &Path, text: &str) -> io::Result<()> {
    io::Write::write_all(&mut fs::OpenOptions::new().write(true).open(file)?, text.as_bytes())
}

fn remove_dm(name: &str, uuid: &str) -> io::Result<()> {
    let control = fs::File::open("/dev/mapper/control")?;
    // A name can be given to another device in the meantime, a UUID is the device's own.
    let which = if uuid.is_empty() { DmName::Name(name) } else { DmName::Uuid(uuid) };
    match sys::remove_dm(control.as_fd(), which) {
        // ENXIO: there is none of that name any more.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
        other => other,
    }
}

/// The ioctl is the only way, and takes the device's node: it is opened for this, for reading.
fn clear_loop(device: &StackedDevice) -> io::Result<()> {
    let node = Path::new("/dev").join(&device.name);
    if status_at(CWD, &node)?.block_device != Some(device.number) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&node, flags, Mode::empty())?;
    match sys::clear_loop(opened.as_fd()) {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
        other => other,
    }
}
