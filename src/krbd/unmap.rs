//! Unmap a device.

use std::io;
use std::time::{Duration, Instant};

use super::failure::Stage;
use super::find::Target;
use super::map::{not_privileged, open_failed};
use super::pending::Pending;
use super::{BusError, Device, Krbd, POLL, preflight};
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};

const OPERATION: &str = "unmap device";

/// What to do if a target means more than one mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfSeveral {
    /// Nothing: it is an error that lists them.
    #[default]
    Refuse,
    /// Unmap the one with the lowest id, as the `rbd` program does.
    One,
    /// Unmap each of them.
    All,
    /// Unmap the one that was mapped last, by the disks' sequence numbers (Linux 5.15; before, by the highest id).
    Newest,
}

/// How to unmap.
#[derive(Debug, Clone)]
#[must_use]
pub struct UnmapOptions {
    force: bool,
    busy_retries: u32,
    deadline: Option<Duration>,
    if_several: IfSeveral,
}

/// A mapping that is gone now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Unmapped {
    /// As it was found, or given.
    pub device: Device,
    /// How often it was written to the kernel: 1, and one more for each time that it was busy.
    pub attempts: u32,
}

impl UnmapOptions {
    /// Not by force, with 200 retries while it is busy (two seconds), one mapping only, and as long as it takes.
    pub fn new() -> Self {
        Self { force: false, busy_retries: 200, deadline: None, if_several: IfSeveral::Refuse }
    }

    /// For what was mapped and nobody wants. Nobody waits for it either, and on a busy host udev looks into it for
    /// long.
    pub(super) fn to_undo() -> Self {
        Self::new().busy_retries(6000)
    }

    /// Even if the device is open (Linux 4.9): the kernel waits for the I/O in flight, then every further I/O fails.
    ///
    /// What was not written back is lost. Mounts of the device stay in place, and give errors, until they are
    /// unmounted. With a cluster that does not answer, I/O in flight never ends and neither does this, unless the image
    /// was mapped with `osd_request_timeout`.
    pub fn force(self) -> Self {
        Self { force: true, ..self }
    }

    /// How often to try again, 10 ms apart, while the device is busy; 0 for not at all.
    ///
    /// Whenever somebody closes the device after writing, and when it is mapped, udev opens it to see what is on it:
    /// that lasts for up to half a second, and is the reason for these retries.
    pub fn busy_retries(self, retries: u32) -> Self {
        Self { busy_retries: retries, ..self }
    }

    /// How long the whole unmap may take. A device that is busy until then is `Busy`, and not `TimedOut`.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// What to do if several mappings are meant.
    pub fn if_several(self, if_several: IfSeveral) -> Self {
        Self { if_several, ..self }
    }
}

impl Default for UnmapOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Krbd {
    /// Unmaps what `target` means, and returns when the kernel has let go of the image: its lock and its watch are gone
    /// with it.
    ///
    /// The kernel takes nothing but an id, and ids are used again. So right before each write the mapping is read once
    /// more and compared with what was meant (as by [`Device::is_same_mapping`]). Between that and the write there
    /// remain some microseconds, in which somebody else would have to unmap it **and** map another.
    ///
    /// # Errors
    ///
    /// - `NotMapped`: there is no such mapping. That the device is absent is no proof that it is unmapped: a removal by
    ///   somebody else that waits for the cluster has taken it out of `/sys` already.
    /// - `Busy`: it is open, and was after all retries; the details have the number of attempts. The kernel logs
    ///   nothing and does not say who.
    /// - `AlreadyRemoving`: another unmap of it is under way (EINPROGRESS).
    /// - `Ambiguous`: several mappings are meant; the details list them.
    /// - `Changed`: the id became another mapping's.
    /// - `NotBlockDevice`, `NotRbdDevice`, `NotFound`: the path is something else.
    /// - `ModuleNotLoaded`, `SysfsReadOnly`, `NotPrivileged`: this host or this container cannot unmap.
    /// - `TimedOut`: the deadline passed with the kernel at work; the details have the [`Pending`], which goes on.
    ///
    /// With [`IfSeveral::All`] each is tried, in its part of the time, and the first error is returned.
    #[doc(alias = "krbd_unmap")]
    pub fn unmap(&self, target: impl Into<Target>, options: &UnmapOptions) -> Result<Vec<Unmapped>> {
        let target = target.into();
        let deadline = Deadline::after(options.deadline);
        let mut meant = self.meant_by(&target).map_err(|error| error.at(Stage::Preflight))?;
        let chosen = match (meant.len(), options.if_several) {
            (0, _) => {
                return Err(Error::new(ErrorKind::NotMapped, OPERATION).with_object(target).at(Stage::Preflight));
            }
            (1, _) | (_, IfSeveral::All) => meant,
            (_, IfSeveral::One) => vec![meant.swap_remove(0)],
            (_, IfSeveral::Newest) => meant.into_iter().max_by_key(|d| (d.disk_sequence, d.id)).into_iter().collect(),
            (_, IfSeveral::Refuse) => {
                return Err(Error::new(ErrorKind::Ambiguous, OPERATION)
                    .with_object(target)
                    .with_details(Details::Devices(meant))
                    .at(Stage::Preflight));
            }
        };
        // One that stays busy is not to take the time of those behind it.
        let parts = (1..=chosen.len() as u32).rev();
        let part = |of: u32| Deadline::after(deadline.left().map(|left| left / of));
        let unmap = |(device, of)| self.unmap_one(device, options, part(of));
        let results: Vec<_> = chosen.into_iter().zip(parts).map(unmap).collect();
        results.into_iter().collect()
    }

    fn unmap_one(&self, device: Device, options: &UnmapOptions, deadline: Deadline) -> Result<Unmapped> {
        if deadline.is_over() {
            let error = Error::new(ErrorKind::TimedOut, OPERATION).with_object(&device).at(Stage::Write);
            return Err(error.with_details(Details::Attempts(0)));
        }
        let mut attempts = 0;
        let mut slowest = Duration::ZERO;
        loop {
            attempts += 1;
            let start = Instant::now();
            let error = match self.remove(&device, options.force, deadline) {
                Ok(()) => return Ok(Unmapped { device, attempts }),
                Err(error) => error,
            };
            // ENOENT of a device that is there: whoever maps it is not through in the kernel.
            let passing = error.kind() == ErrorKind::Busy
                || error.errno() == Some(libc::EINTR)
                || error.errno() == Some(libc::ENOENT) && self.is_there(&device).is_ok_and(|is| is);
            if !passing {
                return Err(error);
            }
            slowest = slowest.max(start.elapsed());
            if attempts <= options.busy_retries {
                std::thread::sleep(deadline.left().unwrap_or(POLL).min(POLL));
            }
            // A write that cannot end in time would be left to the kernel, and its end not known.
            if attempts > options.busy_retries || deadline.left().is_some_and(|left| left <= slowest) {
                return Err(error.with_details(Details::Attempts(attempts)));
            }
        }
    }

    /// One write. Where the caller has a deadline it is done on a thread of its own: the kernel may not give it back.
    fn remove(&self, device: &Device, force: bool, deadline: Deadline) -> Result<()> {
        let request = format!("{}{}", device.id, if force { " force" } else { "" });
        let (krbd, meant) = (self.clone(), device.clone());
        let work = move || {
            let check = || match krbd.is_there(&meant) {
                Ok(true) => Ok(()),
                Ok(false) => Err(not_mapped(&meant).at(Stage::Preflight)),
                Err(error) => Err(error.at(Stage::Preflight)),
            };
            let written = krbd.write(OPERATION, &meant, "remove", request.as_bytes(), None, check)?;
            match written {
                Ok(written) => {
                    written.keep();
                    Ok(())
                }
                // Interrupted, or by a helper that is gone: the kernel did it or did not, and is through with it.
                Err(BusError(_, error)) if is_uncertain(&error) && krbd.is_gone(&meant) => Ok(()),
                Err(error) => Err(krbd.explain_remove(&meant, error)),
            }
        };
        if deadline.left().is_none() {
            return work();
        }
        let pending = Pending::start("krbd-unmap", work, |()| (), |()| Ok(()))?;
        pending.wait_until(deadline).unwrap_or_else(|| {
            Err(Error::new(ErrorKind::TimedOut, OPERATION)
                .with_object(device)
                .with_details(Details::PendingUnmap(pending))
                .at(Stage::Write))
        })
    }

    /// Its id may be another's already.
    fn is_gone(&self, device: &Device) -> bool {
        match self.same(device) {
            Ok(now) => now.is_none(),
            Err(error) => error.kind() == ErrorKind::Changed,
        }
    }

    fn explain_remove(&self, device: &Device, BusError(stage, error): BusError) -> Error {
        let errno = error.raw_os_error();
        let failed = Error::from_io(OPERATION, error).with_object(device).at(stage);
        let Some(errno) = errno else { return failed };
        match errno {
            _ if stage == Stage::Open => open_failed(failed, errno, &self.sysfs.bus()),
            libc::EPERM if preflight::is_privileged(&self.proc) == Some(false) => not_privileged(failed),
            libc::ENOENT => failed.with_kind(ErrorKind::NotMapped),
            libc::EINPROGRESS => failed.with_kind(ErrorKind::AlreadyRemoving),
            _ => failed,
        }
    }
}

/// Whether it does not say what the kernel did. A handler of the host's can interrupt a write on the caller's thread.
fn is_uncertain(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), None | Some(libc::EINTR))
}

fn not_mapped(device: &Device) -> Error {
    Error::new(ErrorKind::NotMapped, OPERATION).with_object(device)
}
