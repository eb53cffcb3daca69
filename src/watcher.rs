//! Who watches an object: the clients that have an image open.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::address::EntityAddress;
use crate::error::{Error, ErrorKind, Result};
use crate::text::{decimal, quoted};

/// A client that watches an object; every client that has an image open to write watches its header object.
///
/// Its text is a line of `rados listwatchers` without the word `watcher=` before it.
///
/// ```
/// use rbd::{Watcher, WatcherKind};
///
/// let line = "watcher=192.0.2.10:0/2359070641 client.35594571 cookie=18446462598732840969";
/// let watcher: Watcher = line.parse()?;
/// assert_eq!(watcher.client, 35594571);
/// assert_eq!(watcher.kind(), WatcherKind::Kernel);
/// # Ok::<(), rbd::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Watcher {
    /// The client's address. It is that of the network namespace in which the client connected, often a container's.
    pub address: EntityAddress,
    /// The client's id in the cluster: the number in `client.4235`.
    pub client: u64,
    /// What tells apart the watches of one client.
    pub cookie: u64,
    /// How long the watch outlives a client that went silent, where the source says it. It is the OSD's
    /// `osd_client_watch_timeout` or what the client asked for, counted from the client's last sign of life.
    pub timeout: Option<Duration>,
}

/// What kind of client a watch belongs to, as far as its cookie tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WatcherKind {
    /// The kernel's rbd driver: cookies count up from 0xffff000000000001 (`CEPH_LINGER_ID_START` in
    /// `include/linux/ceph/osd_client.h`).
    Kernel,
    /// A program with librados: the cookie is an address in its memory.
    UserSpace,
    /// Neither: old kernels counted from 1.
    Unknown,
}

impl Watcher {
    /// A watcher whose time-out is not known.
    pub const fn new(address: EntityAddress, client: u64, cookie: u64) -> Self {
        Self { address, client, cookie, timeout: None }
    }

    /// The kind of client, as far as the cookie tells.
    pub const fn kind(&self) -> WatcherKind {
        // User space ends at 2^56 at most (x86-64 with five levels of page tables), and its first page is not used.
        const PAGE: u64 = 1 << 12;
        const USER_SPACE_END: u64 = (1 << 56) - 1;
        match self.cookie {
            0xffff_0000_0000_0001.. => WatcherKind::Kernel,
            PAGE..=USER_SPACE_END => WatcherKind::UserSpace,
            _ => WatcherKind::Unknown,
        }
    }
}

impl fmt::Display for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} client.{} cookie={}", self.address, self.client, self.cookie)
    }
}

impl fmt::Display for WatcherKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::UserSpace => "user space",
            Self::Unknown => "unknown",
        })
    }
}

impl FromStr for Watcher {
    type Err = Error;

    /// A line of `rados listwatchers` or `rbd status`, with or without `watcher=`.
    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split_ascii_whitespace();
        let mut word = || words.next().unwrap_or_default();
        let (address, client, cookie) = (word(), word(), word());
        let trailing = !word().is_empty();
        let unknown = || {
            Error::new(ErrorKind::InvalidInput, "parse watcher")
                .with_object(quoted(line))
                .with_hint("it is [watcher=]ADDRESS client.ID cookie=COOKIE")
        };
        let cookie = cookie.strip_prefix("cookie=").and_then(decimal).filter(|_| !trailing).ok_or_else(unknown)?;
        let client = client.strip_prefix("client.").and_then(decimal).ok_or_else(unknown)?;
        let address = address.strip_prefix("watcher=").unwrap_or(address).parse::<EntityAddress>();
        Ok(Self::new(address.map_err(|cause| unknown().with_source(cause))?, client, cookie))
    }
}

/// The id in a client's name: `client.4235` as the cluster writes it, or `client4235` as the kernel's `client_id` does.
///
/// # Errors
///
/// `InvalidInput` if it is neither.
///
/// ```
/// assert_eq!(rbd::parse_client_id("client35594571")?, 35594571);
/// # Ok::<(), rbd::Error>(())
/// ```
pub fn parse_client_id(name: &str) -> Result<u64> {
    let digits = name.strip_prefix("client").map(|rest| rest.strip_prefix('.').unwrap_or(rest));
    digits.and_then(decimal).ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, "parse client id")
            .with_object(quoted(name))
            .with_hint("it is client.ID or, from the kernel, clientID")
    })
}

#[cfg(feature = "serde")]
impl serde::Serialize for Watcher {
    /// The keys of `rbd status --format json` (address, client, cookie), then kind and timeout_seconds.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Watcher", 5)?;
        fields.serialize_field("address", &self.address)?;
        fields.serialize_field("client", &self.client)?;
        fields.serialize_field("cookie", &self.cookie)?;
        fields.serialize_field("kind", &self.kind())?;
        fields.serialize_field("timeout_seconds", &self.timeout.map(|timeout| timeout.as_secs()))?;
        fields.end()
    }
}
