//! Who holds an image's lock, and breaking it.

use super::Image;
use super::info::{header_of, id_of};
use crate::address::EntityAddress;
use crate::error::{Details, ErrorKind, Result};
use crate::ffi::Errno;
use crate::ffi::image::ImageHandle;
use crate::ffi::io::IoHandle;
use crate::ffi::lock::{LOCK_OF_IMAGE, LockerText};
use crate::lock::{LockMode, LockOwner, Locker};
use crate::rados::connection::Failure;
use crate::rados::watcher::parse;

/// Whose lock may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakLock {
    /// Only the lock of an owner that does not watch the image any more.
    OnlyIfDead,
    /// That of an owner that watches the image too: it loses what it has not written yet.
    EvenIfAlive,
}

impl Image {
    /// The owners of the lock that the feature `exclusive-lock` takes: none or one, or several where it is shared. A
    /// lock that was taken by hand is not theirs: [`lockers`](Self::lockers) lists all.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rbd_lock_get_owners")]
    pub fn lock_owners(&self) -> Result<Vec<LockOwner>> {
        // Of the OSD, and not by `rbd_lock_get_owners`, which refuses handles that are open read-only, and locks by
        // hand.
        let (mode, lockers) = self.call_and_parse("read lock owners of image", mode_and_lockers)?;
        let automatic = lockers.into_iter().filter(|locker| locker.watch_cookie().is_some());
        Ok(automatic.map(|locker| LockOwner::new(mode, locker.address.to_string())).collect())
    }

    /// Whether this handle holds the lock of the feature `exclusive-lock`.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rbd_is_exclusive_lock_owner")]
    pub fn is_lock_owner(&self) -> Result<bool> {
        self.call("ask for lock of image", |image| image.is_lock_owner())
    }

    /// All locks on the image, those that were taken by hand (`rbd lock add`) too; what `rbd lock ls` prints.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rbd_list_lockers")]
    #[doc(alias = "rados_list_lockers")]
    pub fn lockers(&self) -> Result<Vec<Locker>> {
        self.call_and_parse("list locks of image", lockers)
    }

    /// Breaks a lock. librbd puts its owner on the blocklist first (`rbd_blocklist_on_break_lock`, on by default), so
    /// that it cannot write any more.
    ///
    /// # Errors
    ///
    /// `LockHeld` where the owner still watches the image and `whose` does not allow that; `NotFound` where the lock is
    /// no longer that one.
    #[doc(alias = "rbd_break_lock")]
    pub fn break_lock(&self, locker: &Locker, whose: BreakLock) -> Result<()> {
        const BREAK: &str = "break lock of image";
        let wanted = locker.clone();
        let is_alive = self.call_and_parse(BREAK, move |image| {
            // librbd puts whoever has this client number on the blocklist, and only then looks at the cookie.
            if !lockers(image)?.contains(&wanted) {
                return Err(Errno::NOT_FOUND.into());
            }
            if whose == BreakLock::OnlyIfDead && wanted.is_alive(&parse(image.watchers()?)?) {
                return Ok(true);
            }
            image.break_lock(&wanted.client, &wanted.cookie)?;
            Ok(false)
        })?;
        if is_alive {
            let owner = LockOwner::new(LockMode::Exclusive, locker.address.to_string());
            return Err(self
                .error(ErrorKind::LockHeld, BREAK)
                .with_details(Details::LockOwners(vec![owner]))
                .with_hint("its owner is alive: it watches the image"));
        }
        Ok(())
    }
}

/// What may be the matter where librbd wanted the lock and the deadline passed.
pub(super) const LOCK_HINT: &str =
    "the cluster did not answer in time, or the image's lock is held: see Image::lockers";

pub(super) fn lockers(image: &ImageHandle) -> Result<Vec<Locker>, Failure> {
    mode_and_lockers(image).map(|(_, lockers)| lockers)
}

fn mode_and_lockers(image: &ImageHandle) -> Result<(LockMode, Vec<Locker>), Failure> {
    let header = header_of(id_of(image)?.as_ref(), image)?;
    lockers_of_header(image.io(), header.as_str())
}

/// How the lock of an image is held, and by whom, by the image's header object.
pub(crate) fn lockers_of_header(io: &IoHandle, header: &str) -> Result<(LockMode, Vec<Locker>), Failure> {
    let (exclusive, lockers) = io.lockers(header, LOCK_OF_IMAGE)?;
    let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
    let locker = |locker: LockerText| {
        let address = locker.address.parse::<EntityAddress>()?.without_protocol();
        Ok(Locker::new(locker.client, locker.cookie, address))
    };
    Ok((mode, lockers.into_iter().map(locker).collect::<Result<_, Failure>>()?))
}
