//! Who holds a lock on an image.

use std::fmt;

use crate::address::EntityAddress;
use crate::text::decimal;
use crate::watcher::Watcher;

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockMode {
    /// By one client (`RBD_LOCK_MODE_EXCLUSIVE`).
    Exclusive,
    /// By several (`RBD_LOCK_MODE_SHARED`).
    Shared,
    /// A mode that this library does not know, by its number in `rbd_lock_mode_t`.
    Other(u32),
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Shared => f.write_str("shared"),
            Self::Other(number) => write!(f, "{number}"),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for LockMode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An owner of an image's exclusive lock, as `rbd_lock_get_owners` returns it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockOwner {
    /// How the lock is held.
    pub mode: LockMode,
    /// Who holds it, verbatim, as `rbd_lock_break` wants it: its address.
    pub owner: String,
}

impl LockOwner {
    /// An owner, as librbd names it.
    pub fn new(mode: LockMode, owner: impl Into<String>) -> Self {
        Self { mode, owner: owner.into() }
    }

    /// The owner's address, if its name is one.
    pub fn address(&self) -> Option<EntityAddress> {
        self.owner.parse().ok()
    }
}

impl fmt::Display for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.owner)
    }
}

/// A lock on an image: a manual one (`rbd lock add`), or the one that `exclusive-lock` takes by itself.
///
/// Client and cookie are verbatim, since breaking the lock takes exactly these.
///
/// Serialised, it has the keys of `rbd lock ls --format json`: `locker` is the client, `id` the cookie.
#[doc(alias = "rbd_list_lockers")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Locker {
    /// The client that holds it, such as `client.4485`.
    #[cfg_attr(feature = "serde", serde(rename = "locker"))]
    pub client: String,
    /// The lock's cookie; that of an automatic lock is `auto 18446462598732840961`, with a space in it.
    #[cfg_attr(feature = "serde", serde(rename = "id"))]
    pub cookie: String,
    /// The address of the client.
    pub address: EntityAddress,
}

impl Locker {
    /// A locker, as librbd names it.
    pub fn new(client: impl Into<String>, cookie: impl Into<String>, address: EntityAddress) -> Self {
        Self { client: client.into(), cookie: cookie.into(), address }
    }

    /// The cookie of the watch that the holder of an automatic lock keeps on the image's header; `None` for a manual
    /// lock.
    pub fn watch_cookie(&self) -> Option<u64> {
        self.cookie.strip_prefix("auto ").and_then(decimal)
    }

    /// Whether the holder is among the image's watchers.
    ///
    /// An automatic lock is alive if its own watch is there, found by address and cookie. A manual lock comes without
    /// a watch: it counts as alive if its client watches the image at all, and a holder that does not need not be dead.
    pub fn is_alive(&self, watchers: &[Watcher]) -> bool {
        watchers.iter().any(|watcher| {
            watcher.address.same_endpoint(&self.address)
                && self.watch_cookie().is_none_or(|cookie| cookie == watcher.cookie)
        })
    }
}

impl fmt::Display for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.client, self.cookie, self.address)
    }
}
