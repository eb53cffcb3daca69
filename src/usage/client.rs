//! A user of an image: one client of the cluster, with all that is known of it.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::address::EntityAddress;
use crate::holder::Holders;
use crate::krbd::Device;
use crate::lock::Locker;
use crate::rados::BlocklistEntry;
use crate::watcher::{Watcher, WatcherKind};

/// A client of the cluster that uses an image: by a watch, by a lock, or by a mapping on this host. All that belongs to
/// one client is here together, and two clients of one address are two.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Client {
    /// Its id in the cluster, the number in `client.4235`; `None` for a mapping whose kernel does not show it.
    pub id: Option<u64>,
    /// Its address; `None` likewise. It is that of the network namespace in which the client connected.
    pub address: Option<EntityAddress>,
    /// Where it is.
    pub place: Place,
    /// What kind of client it is.
    pub kind: WatcherKind,
    /// What it can do to the image.
    pub access: Access,
    /// Whether it was seen to live.
    pub state: State,
    /// Its watches on the header object: one for each time that it has the image open to write.
    pub watches: Vec<Watcher>,
    /// Its locks on the image, those that were taken by hand too.
    pub locks: Vec<Locker>,
    /// The image's mappings on this host that are this client's, snapshots included.
    pub mappings: Vec<Mapping>,
    /// The entries of the blocklist that hit it: the cluster refuses whatever it asks for.
    pub blocklisted: Vec<BlocklistEntry>,
    /// Whether it is a daemon that mirrors images (`rbd-mirror`), by the cluster's service map.
    pub mirror_daemon: bool,
}

/// A mapping of the image on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Mapping {
    /// The mapping.
    pub device: Device,
    /// Who on this host keeps the device busy; `None` where it was not looked for, or could not be.
    pub holders: Option<Holders>,
}

/// Where a client is, as far as its address tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "where", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Place {
    /// It is the connection that asked.
    ThisProgram,
    /// On this host: a mapping of it is here, or its address is one of the host's.
    ThisHost,
    /// On a node that the caller has named.
    Node {
        /// The name.
        name: String,
    },
    /// On none of the nodes that the caller has named: a node that left them, a container's own address, another site.
    Unlisted,
    /// Elsewhere: no nodes were named.
    Elsewhere,
}

/// What a client can do to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Access {
    /// It only reads: a read-only mapping, or one of a snapshot. Who has no watch is seen on its own host only.
    ReadOnly,
    /// It has it open to write; whether it writes is not known.
    ReadWrite,
}

/// Whether a client was seen to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum State {
    /// It has acknowledged a notify just now.
    Alive,
    /// It watches the image and has not acknowledged a notify: it is dead, frozen, or cut off from the cluster. It may
    /// come back.
    Silent,
    /// It was not asked, or has nothing that could be asked.
    Unknown,
}

impl Client {
    /// Whether its watch is gone although it has a lock, or a mapping that could write: it died, it is cut off, or the
    /// cluster refuses it. A kernel client keeps mapping and lock then, and a frozen one may come back.
    pub fn has_lost_its_watch(&self) -> bool {
        // Where the kernel does not say which client a mapping is, its watch is not known to be gone.
        if self.id.is_none() && self.address.is_none() {
            return false;
        }
        self.watches.len() < self.mappings.iter().filter(|mapping| mapping.is_writable()).count()
            || self.is_gone_with_lock()
    }

    /// Whether it holds a lock that only somebody who watches the image can have taken, and watches it no more.
    pub fn is_gone_with_lock(&self) -> bool {
        self.locks.iter().any(|lock| lock.watch_cookie().is_some() && !lock.is_alive(&self.watches))
    }

    /// Whether the cluster refuses it.
    pub fn is_blocklisted(&self) -> bool {
        !self.blocklisted.is_empty()
    }

    /// Whether it is on this host, this program included.
    pub fn is_local(&self) -> bool {
        matches!(self.place, Place::ThisProgram | Place::ThisHost)
    }

    /// Whether its address is this one.
    pub fn is_at(&self, ip: IpAddr) -> bool {
        self.address.is_some_and(|address| address.ip() == ip)
    }

    /// How long the cluster waits at most for a sign of life, before it forgets its watches.
    pub fn watch_timeout(&self) -> Option<Duration> {
        self.watches.iter().filter_map(|watch| watch.timeout).max()
    }
}

impl Mapping {
    /// A mapping whose holders were not looked for.
    pub fn new(device: Device) -> Self {
        Self { device, holders: None }
    }

    /// Whether it was mapped to write. Such a mapping watches the image; a read-only one and a snapshot's do not
    /// (`rbd_dev_image_probe` in `drivers/block/rbd.c`).
    pub fn is_writable(&self) -> bool {
        let device = &self.device;
        // What the disk says now may have been changed since (`blockdev --setro`).
        let read_only = match &device.config {
            Some(config) => config.options().is_read_only(),
            None => device.read_only == Some(true),
        };
        device.snapshot.is_none() && !read_only
    }
}

impl fmt::Display for Client {
    /// `client.4235 at 192.0.2.10:0/2359070641`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "client.{id}")?,
            None => f.write_str("a client")?,
        }
        match &self.address {
            Some(address) => write!(f, " at {address}"),
            None => f.write_str(" at an unknown address"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProgram => f.write_str("this program"),
            Self::ThisHost => f.write_str("this host"),
            Self::Node { name } => f.write_str(name),
            Self::Unlisted => f.write_str("none of the nodes"),
            Self::Elsewhere => f.write_str("another host"),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "read-only",
            Self::ReadWrite => "read-write",
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alive => "alive",
            Self::Silent => "silent",
            Self::Unknown => "unknown",
        })
    }
}
