//! The options of a map: builder, parser and printer.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use super::option::{CompressionHint, MapOption, MsMode, ReadFromReplica};
use crate::error::{Error, Result};
use crate::fsid::Fsid;

/// The options of a map, as `rbd map -o` takes them: set one by one, or read from such a string.
///
/// Of each [key](MapOption::key) there is one, the last that was set. The text has them in the order of the keys, as
/// the `rbd` program sends them.
///
/// ```
/// # use rbd::krbd::{MapOptions, MsMode};
/// let options = MapOptions::new().read_only().queue_depth(64)?.ms_mode(MsMode::Secure);
/// assert_eq!(options.to_string(), "ms_mode=secure,queue_depth=64,ro");
/// assert_eq!("ro,queue_depth=64,ms_mode=secure".parse::<MapOptions>()?, options);
/// # Ok::<(), rbd::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct MapOptions(BTreeMap<&'static str, MapOption>);

/// An option in which two sets differ; `None` where it is not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionDifference {
    /// In the set that was compared.
    pub existing: Option<MapOption>,
    /// In the set that it was compared with.
    pub wanted: Option<MapOption>,
}

impl MapOptions {
    /// None: the kernel's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): its value is one that the kernel would refuse.
    pub fn set(mut self, option: MapOption) -> Result<Self> {
        option.check()?;
        self.put(option);
        Ok(self)
    }

    /// For options that need no check, or had it.
    fn put(&mut self, option: MapOption) {
        self.0.insert(option.key(), option);
    }

    fn with(mut self, option: MapOption) -> Self {
        self.put(option);
        self
    }

    /// The option with this [key](MapOption::key), if it is set.
    pub fn get(&self, key: &str) -> Option<&MapOption> {
        self.0.get(key)
    }

    /// All that are set, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &MapOption> {
        self.0.values()
    }

    /// Adds those of `defaults` whose keys are not set, as the `rbd` program does with `rbd_default_map_options`.
    pub fn or(mut self, defaults: &Self) -> Self {
        for (key, option) in &defaults.0 {
            self.0.entry(key).or_insert_with(|| option.clone());
        }
        self
    }

    /// Read-only ([`MapOption::ReadOnly`]).
    pub fn read_only(self) -> Self {
        self.with(MapOption::ReadOnly(true))
    }

    /// Whether the map is to be read-only.
    pub fn is_read_only(&self) -> bool {
        self.get("rw") == Some(&MapOption::ReadOnly(true))
    }

    /// Keep the lock from others ([`MapOption::Exclusive`]).
    pub fn exclusive(self) -> Self {
        self.with(MapOption::Exclusive)
    }

    /// Take the lock for reads too ([`MapOption::LockOnRead`]).
    pub fn lock_on_read(self) -> Self {
        self.with(MapOption::LockOnRead)
    }

    /// A kernel client of its own ([`MapOption::Share`]).
    pub fn no_share(self) -> Self {
        self.with(MapOption::Share(false))
    }

    /// No discards ([`MapOption::NoTrim`]).
    pub fn no_trim(self) -> Self {
        self.with(MapOption::NoTrim)
    }

    /// Writes fail when the cluster is full ([`MapOption::AbortOnFull`]).
    pub fn abort_on_full(self) -> Self {
        self.with(MapOption::AbortOnFull)
    }

    /// Receive into a buffer of its own ([`MapOption::RxBounce`]).
    pub fn rx_bounce(self) -> Self {
        self.with(MapOption::RxBounce)
    }

    /// Checksums with `ms_mode=legacy` ([`MapOption::Crc`]).
    pub fn crc(self, yes: bool) -> Self {
        self.with(MapOption::Crc(yes))
    }

    /// Signatures with `ms_mode=legacy` ([`MapOption::CephxSignMessages`]).
    pub fn cephx_sign_messages(self, yes: bool) -> Self {
        self.with(MapOption::CephxSignMessages(yes))
    }

    /// Ignored by newer kernels ([`MapOption::CephxRequireSignatures`]).
    pub fn cephx_require_signatures(self, yes: bool) -> Self {
        self.with(MapOption::CephxRequireSignatures(yes))
    }

    /// [`MapOption::TcpNodelay`].
    pub fn tcp_nodelay(self, yes: bool) -> Self {
        self.with(MapOption::TcpNodelay(yes))
    }

    /// Wait for udev's link as well ([`MapOption::Udev`]).
    pub fn udev(self, yes: bool) -> Self {
        self.with(MapOption::Udev(yes))
    }

    /// The protocol ([`MapOption::MsMode`]).
    pub fn ms_mode(self, mode: MsMode) -> Self {
        self.with(MapOption::MsMode(mode))
    }

    /// [`MapOption::CompressionHint`].
    pub fn compression_hint(self, hint: CompressionHint) -> Self {
        self.with(MapOption::CompressionHint(hint))
    }

    /// [`MapOption::ReadFromReplica`].
    pub fn read_from_replica(self, which: ReadFromReplica) -> Self {
        self.with(MapOption::ReadFromReplica(which))
    }

    /// The cluster must have this identity ([`MapOption::Fsid`]).
    pub fn fsid(self, fsid: Fsid) -> Self {
        self.with(MapOption::Fsid(fsid))
    }

    /// This host's address towards the cluster ([`MapOption::Ip`]).
    pub fn ip(self, address: SocketAddr) -> Self {
        self.with(MapOption::Ip(address))
    }

    /// [`MapOption::CrushLocation`].
    ///
    /// # Errors
    ///
    /// This and the following: as [`set`](Self::set).
    pub fn crush_location(self, location: impl Into<String>) -> Result<Self> {
        self.set(MapOption::CrushLocation(location.into()))
    }

    /// Bytes ([`MapOption::AllocSize`]).
    pub fn alloc_size(self, bytes: u32) -> Result<Self> {
        self.set(MapOption::AllocSize(bytes))
    }

    /// Requests at once ([`MapOption::QueueDepth`]).
    pub fn queue_depth(self, requests: u32) -> Result<Self> {
        self.set(MapOption::QueueDepth(requests))
    }

    /// How long the kernel waits for the lock ([`MapOption::LockTimeout`]).
    pub fn lock_timeout(self, time: Duration) -> Result<Self> {
        self.set(MapOption::LockTimeout(time))
    }

    /// How long the kernel waits for the monitors ([`MapOption::MountTimeout`]).
    pub fn mount_timeout(self, time: Duration) -> Result<Self> {
        self.set(MapOption::MountTimeout(time))
    }

    /// After how long I/O fails ([`MapOption::OsdRequestTimeout`]).
    pub fn osd_request_timeout(self, time: Duration) -> Result<Self> {
        self.set(MapOption::OsdRequestTimeout(time))
    }

    /// [`MapOption::OsdKeepalive`].
    pub fn osd_keepalive(self, time: Duration) -> Result<Self> {
        self.set(MapOption::OsdKeepalive(time))
    }

    /// [`MapOption::OsdIdleTtl`].
    pub fn osd_idle_ttl(self, time: Duration) -> Result<Self> {
        self.set(MapOption::OsdIdleTtl(time))
    }

    /// Those that the kernel is told, in order: without `rw`, its default, and without what is not its business.
    pub(super) fn for_kernel(&self) -> impl Iterator<Item = &MapOption> {
        self.iter().filter(|option| !matches!(option, MapOption::Udev(_) | MapOption::ReadOnly(false)))
    }

    /// In what the kernel was told, how these differ from `wanted`.
    pub fn differences(&self, wanted: &Self) -> Vec<OptionDifference> {
        let known = |options: &Self| Self(options.for_kernel().map(|o| (o.key(), o.clone())).collect());
        let (existing, wanted) = (known(self), known(wanted));
        let mut keys: Vec<_> = existing.0.keys().chain(wanted.0.keys()).copied().collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter()
            .map(|key| OptionDifference { existing: existing.get(key).cloned(), wanted: wanted.get(key).cloned() })
            .filter(|difference| difference.existing != difference.wanted)
            .collect()
    }
}

impl FromStr for MapOptions {
    type Err = Error;

    /// As `rbd map -o` takes them: commas between them, empty ones skipped, the last of a key wins. The first may be
    /// surrounded by blanks, as with that program.
    ///
    /// # Errors
    ///
    /// As for [`MapOption`].
    fn from_str(text: &str) -> Result<Self> {
        let mut options = Self::new();
        let text = text.trim_start_matches([',', ' ']);
        let (first, rest) = text.split_once([',', ' ']).unwrap_or((text, ""));
        for word in std::iter::once(first).chain(rest.split(',')).filter(|word| !word.is_empty()) {
            options.put(word.parse()?);
        }
        Ok(options)
    }
}

impl fmt::Display for MapOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, option) in self.iter().enumerate() {
            write!(f, "{}{option}", if n == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for OptionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.existing, &self.wanted) {
            (Some(existing), Some(wanted)) => write!(f, "{existing} where {wanted} is wanted"),
            (Some(existing), None) => write!(f, "{existing}, which is not wanted"),
            (None, Some(wanted)) => write!(f, "not {wanted}"),
            (None, None) => Ok(()),
        }
    }
}
