//! Map an image.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use super::add_string::{self, AddString};
use super::detached::Written;
use super::failure::Stage;
use super::option::MapOption;
use super::origin::Origin;
use super::pending::Pending;
use super::request::MapRequest;
use super::unmap::UnmapOptions;
use super::{BusError, Device, Krbd, key, preflight};
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};

const OPERATION: &str = "map image";

impl Krbd {
    /// Maps an image or a snapshot and returns the device.
    ///
    /// An image that is mapped already is mapped once more, as `rbd map` does; see [`map_or_get`](Self::map_or_get).
    ///
    /// # Errors
    ///
    /// [`Error::stage`] says how far it came, [`Error::errno`] what the kernel said. By kind:
    ///
    /// - `InvalidName`, `InvalidInput`, `NoMonitor`: the request was refused before the kernel was touched, or the
    ///   kernel refused its options (EINVAL).
    /// - `ModuleNotLoaded`, `SysfsReadOnly`, `NotPrivileged`: this host or this container cannot map.
    /// - `PermissionDenied`: the cluster refused the user or its key, or the kernel did not find the key.
    /// - `NotFound`: there is no such pool, image, snapshot or namespace.
    /// - `FeatureMismatch`: the kernel lacks features of the image (ENXIO).
    /// - `LockHeld`: another client has the lock and keeps it (EROFS), or kept it for the whole `lock_timeout`.
    /// - `Busy`: the header is locked by other means (`rbd lock add`); `OutOfMajors`: too many devices for the module's
    ///   way of numbering them.
    /// - `Blocklisted`: the kernel client that would be shared is; `noshare` makes another.
    /// - `TimedOut`: the kernel's own time-out (errno 110), or this call's deadline: then the details have a
    ///   [`Pending`], to wait for or to discard.
    /// - `NodeUnusable`: it **is mapped**, as the device in the details, and its node is not as required.
    #[doc(alias = "krbd_map")]
    pub fn map(&self, request: &MapRequest) -> Result<Device> {
        let deadline = Deadline::after(request.deadline);
        // What is wrong with the request itself is said before a thread is started.
        let kernel = add_string::kernel_version(&self.proc);
        AddString::new(request, kernel)?;
        self.check_bus(OPERATION, &request.spec)?;
        if deadline.is_over() {
            return Err(timed_out(request));
        }
        let (krbd, own) = (self.clone(), request.clone());
        let undo = self.clone();
        let pending = Pending::start(
            "krbd-map",
            move || krbd.map_here(&own, kernel),
            |(device, written)| {
                written.keep();
                device
            },
            move |(device, written)| undo.undo(&device, written),
        )?;
        let device = match pending.wait_until(deadline) {
            Some(result) => result?,
            None => return Err(timed_out(request).with_details(Details::PendingMap(pending))),
        };
        self.settle_node(&device, request.node, deadline)?;
        if request.options.get("udev") == Some(&MapOption::Udev(true)) {
            self.wait_for_link(&device, request.node, deadline);
        }
        Ok(device)
    }

    /// Key, write and search on the calling thread.
    fn map_here(&self, request: &MapRequest, kernel: Option<(u32, u32)>) -> Result<(Device, Written)> {
        let prepared = AddString::new(request, kernel)?;
        let origin = Origin::here(&self.proc)?;
        let key = key::hand_over(request)?;
        let text = prepared.with_key(&key, &origin)?;
        let before: BTreeSet<u32> = self.sysfs.listed_ids()?.into_iter().collect();
        let start = Instant::now();
        let key = key::for_helper(request, &key);
        let written = self.write(OPERATION, &request.spec, "add", text.as_bytes(), key.as_ref(), || Ok(()))?;
        let written = match written {
            Ok(written) => written,
            // No errno is no answer from the kernel, as of a helper that is gone, and with it its write. What came of
            // that bears the mark.
            Err(BusError(_, error)) if error.raw_os_error().is_none() => match self.marked(&origin) {
                Some(device) => return Ok((device, Written::directly())),
                None => return Err(self.explain(request, BusError(Stage::Write, error), start.elapsed())),
            },
            Err(error) => return Err(self.explain(request, error, start.elapsed())),
        };
        let device = self.find_new(request, &before, &origin).map_err(|error| mapped_but(request, error))?;
        Ok((device, written))
    }

    /// Unmaps what nobody wants any more.
    fn undo(&self, device: &Device, written: Written) -> Result<()> {
        // The helper that mapped unmaps it, even if this program ends now.
        drop(written);
        match self.unmap(device, &UnmapOptions::to_undo()) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotMapped | ErrorKind::Changed) => Err(error),
            _ => Ok(()),
        }
    }

    /// `add_single_major` is there if the module works in that mode, and then `add` refuses.
    pub(super) fn bus_file(&self, verb: &str) -> std::path::PathBuf {
        let bus = self.sysfs.bus();
        let file = bus.join(format!("{verb}_single_major"));
        if file.exists() { file } else { bus.join(verb) }
    }

    pub(super) fn check_bus(&self, operation: &'static str, object: impl std::fmt::Display) -> Result<()> {
        if self.sysfs.bus().is_dir() { Ok(()) } else { Err(self.sysfs.no_module(operation).with_object(object)) }
    }

    /// The write has returned, so the device is there, and bears the mark. Where the mark cannot be read (before Linux
    /// 4.9), it must be the only one of that spec with a new id.
    fn find_new(&self, request: &MapRequest, before: &BTreeSet<u32>, origin: &Origin) -> Result<Device> {
        // The kernel gives out the lowest id that is free.
        let likely = (0..).find(|id| !before.contains(id)).and_then(|id| self.sysfs.device(id).ok()?);
        if let Some(device) = likely.filter(|device| device.origin().as_ref() == Some(origin)) {
            return Ok(device);
        }
        let ids = self.sysfs.ids()?;
        if let Some(device) = self.marked_among(ids.clone(), origin)? {
            return Ok(device);
        }
        let new = ids.into_iter().filter(|id| !before.contains(id));
        let mut candidates = new.filter_map(|id| self.sysfs.device(id).transpose()).collect::<Result<Vec<_>>>()?;
        candidates.retain(|device| device.config.is_none() && device.is_of(&request.spec));
        match (candidates.pop(), candidates.is_empty()) {
            (Some(device), true) => Ok(device),
            (None, _) => Err(Error::new(ErrorKind::Changed, OPERATION).with_hint("it was mapped and is gone again")),
            (Some(device), false) => {
                candidates.push(device);
                Err(Error::new(ErrorKind::Ambiguous, OPERATION)
                    .with_hint("it was mapped, and another program mapped the same at the same time")
                    .with_details(Details::Devices(candidates)))
            }
        }
    }

    /// The mapping with this mark. That another cannot be read matters only if it is not found.
    fn marked_among(&self, ids: Vec<u32>, origin: &Origin) -> Result<Option<Device>> {
        let mut unreadable = None;
        for id in ids {
            let device = match self.sysfs.origin(id) {
                Ok(mark) if mark.as_ref() == Some(origin) => self.sysfs.device(id),
                other => other.map(|_| None),
            };
            match device {
                Ok(None) => {}
                Ok(Some(device)) => return Ok(Some(device)),
                Err(error) => unreadable = Some(error),
            }
        }
        unreadable.map_or(Ok(None), Err)
    }

    /// The mapping with this mark, as far as can be seen.
    pub(super) fn marked(&self, origin: &Origin) -> Option<Device> {
        self.marked_among(self.sysfs.ids().ok()?, origin).ok()?
    }

    /// What the kernel's errno means for a map, as far as this host can tell.
    fn explain(&self, request: &MapRequest, BusError(stage, error): BusError, took: Duration) -> Error {
        if stage == Stage::AddKey {
            return key::refused_in_helper(request, &error);
        }
        let errno = error.raw_os_error();
        let failed = Error::from_io(OPERATION, error).with_object(&request.spec).at(stage);
        let Some(errno) = errno else { return failed };
        if stage == Stage::Open {
            return open_failed(failed, errno, &self.sysfs.bus());
        }
        match errno {
            libc::EPERM if preflight::is_privileged(&self.proc) == Some(false) => not_privileged(failed),
            libc::EPERM if request.options.is_read_only() => {
                failed.with_hint("the user's capabilities forbid it, or the kernel did not find the key")
            }
            libc::EPERM => failed.with_hint(
                "the user's capabilities forbid it, perhaps only to write (then map read-only), or the kernel did not find the key",
            ),
            libc::EACCES => failed.with_hint("the cluster does not know the user, or the key is wrong"),
            libc::ENOENT => {
                failed.with_hint("there is no such pool, image, snapshot or namespace; see the kernel's log")
            }
            libc::ENXIO => failed
                .with_kind(ErrorKind::FeatureMismatch)
                .with_hint("the kernel lacks features of the image; its log has them in hexadecimal"),
            libc::EBUSY if self.sysfs.single_major() == Some(false) => self.out_of_majors(failed),
            libc::EBUSY => failed.with_hint("the image's header is locked by other means, such as `rbd lock add`"),
            libc::EROFS => {
                failed.with_kind(ErrorKind::LockHeld).with_hint("another client has the lock and does not give it up")
            }
            libc::ESHUTDOWN => {
                failed.with_hint("the shared kernel client is on the blocklist; the option noshare makes another")
            }
            libc::ETIMEDOUT if lock_timed_out(request, took) => failed
                .with_kind(ErrorKind::LockHeld)
                .with_hint("another client kept the lock for the whole lock_timeout"),
            libc::ETIMEDOUT => failed.with_hint("no answer from the cluster within the kernel's own time-out"),
            _ => failed,
        }
    }

    /// Without single_major each device has a major number of its own, and there are some 230 left for that.
    fn out_of_majors(&self, failed: Error) -> Error {
        const MANY: usize = 200;
        match self.sysfs.ids() {
            Ok(ids) if ids.len() >= MANY => failed.with_kind(ErrorKind::OutOfMajors).with_hint(format!(
                "{} devices, each with a major number of its own: load rbd with single_major=Y",
                ids.len()
            )),
            _ => failed,
        }
    }
}

/// ETIMEDOUT comes from `lock_timeout` if that has passed and `mount_timeout` cannot have.
pub(super) fn lock_timed_out(request: &MapRequest, took: Duration) -> bool {
    let Some(MapOption::LockTimeout(lock)) = request.options.get("lock_timeout") else { return false };
    let mount = match request.options.get("mount_timeout") {
        Some(MapOption::MountTimeout(time)) => *time,
        _ => Duration::from_secs(60),
    };
    !lock.is_zero() && took >= *lock && (mount.is_zero() || took < mount)
}

/// The write was carried out, and what it made is not known.
fn mapped_but(request: &MapRequest, error: Error) -> Error {
    match error.hint() {
        Some(_) => error.with_object(&request.spec),
        None => error.with_hint("the image was mapped before this failed, and may be so still: list the mappings"),
    }
    .at(Stage::Write)
}

fn timed_out(request: &MapRequest) -> Error {
    Error::new(ErrorKind::TimedOut, OPERATION).with_object(&request.spec).at(Stage::Write)
}

pub(super) fn open_failed(failed: Error, errno: i32, bus: &Path) -> Error {
    match errno {
        libc::EROFS => failed
            .with_kind(ErrorKind::SysfsReadOnly)
            .with_hint(format!("{} is mounted read-only here, as in a container", bus.display())),
        libc::EACCES | libc::EPERM => failed
            .with_kind(ErrorKind::NotPrivileged)
            .with_hint(format!("{} may be written by root only", bus.display())),
        libc::ENOENT => failed.with_kind(ErrorKind::ModuleNotLoaded),
        _ => failed,
    }
}

pub(super) fn not_privileged(failed: Error) -> Error {
    failed
        .with_kind(ErrorKind::NotPrivileged)
        .with_hint("the kernel asks for CAP_SYS_ADMIN in the initial user namespace")
}
