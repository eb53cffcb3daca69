//! One map option: its word, its value and the range that the kernel takes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::fsid::Fsid;

/// One option of `rbd map -o`, with the words of rbd(8).
///
/// [`MapOptions`](super::MapOptions) holds one of each key: [`Crc(true)`](Self::Crc) and `Crc(false)` have the same.
/// The text of a value is checked when it is put there or read, against the ranges of `drivers/block/rbd.c` and
/// `net/ceph/ceph_common.c`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapOption {
    /// `abort_on_full`: writes fail with ENOSPC when the cluster or the pool is full, instead of waiting (Linux 5.0).
    AbortOnFull,
    /// `alloc_size`: bytes, a power of two of at least 512; discards of less are dropped (Linux 5.1).
    AllocSize(u32),
    /// `cephx_require_signatures`, `nocephx_require_signatures`: ignored by newer kernels (Linux 3.19).
    CephxRequireSignatures(bool),
    /// `cephx_sign_messages`, `nocephx_sign_messages`: signed messages with `ms_mode=legacy` (Linux 4.4).
    CephxSignMessages(bool),
    /// `compression_hint` for the OSDs (Linux 5.8).
    CompressionHint(CompressionHint),
    /// `crc`, `nocrc`: checksums of the data with `ms_mode=legacy`.
    Crc(bool),
    /// `crush_location`: `type:name`, several with `|` between them (Linux 5.8).
    CrushLocation(String),
    /// `exclusive`: the lock is not given up to others; needs the feature exclusive-lock (Linux 4.12).
    Exclusive,
    /// `fsid`: the cluster must have this identity.
    Fsid(Fsid),
    /// `ip`: this host's address towards the cluster, with a port or without (0).
    Ip(SocketAddr),
    /// `lock_on_read`: reads take the lock too; needs the feature exclusive-lock (Linux 4.9).
    LockOnRead,
    /// `lock_timeout`: whole seconds to wait for the lock, 0 for ever (Linux 4.17).
    LockTimeout(Duration),
    /// `mount_timeout`: whole seconds for each step of a map and, since Linux 4.2, of an unmap; 0 for ever, default 60.
    MountTimeout(Duration),
    /// `ms_mode`: the protocol towards the cluster (Linux 5.11).
    MsMode(MsMode),
    /// `notrim`: no discards, no zeroing by them (Linux 4.17).
    NoTrim,
    /// `osd_idle_ttl`: whole seconds, at least 1, after which an idle OSD connection is closed; default 60.
    OsdIdleTtl(Duration),
    /// `osd_request_timeout`: whole seconds after which I/O fails with ETIMEDOUT; 0, the default, is never. Without it
    /// nothing bounds an unmap while the cluster is gone; with it, writes can be lost.
    OsdRequestTimeout(Duration),
    /// `osdkeepalive`: whole seconds, at least 1; default 5.
    OsdKeepalive(Duration),
    /// `queue_depth`: requests at once, at least 1; default 128 (Linux 4.2).
    QueueDepth(u32),
    /// `read_from_replica`: which OSDs answer reads (Linux 5.8).
    ReadFromReplica(ReadFromReplica),
    /// `ro` (true) or `rw` (false). A read-only map registers no watch and takes no lock.
    ReadOnly(bool),
    /// `rxbounce`: data is received into a buffer of its own, for guests that change theirs meanwhile (Linux 5.17).
    RxBounce,
    /// `share`, `noshare`: the same kernel client as other maps with equal options, or one of its own.
    Share(bool),
    /// `tcp_nodelay`, `notcp_nodelay` (Linux 4.0).
    TcpNodelay(bool),
    /// `udev`, `noudev`: whether map waits, for a bounded time, for udev's link as well. The kernel never sees it, and
    /// not to wait is the default.
    Udev(bool),
}

/// `compression_hint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompressionHint {
    /// `none`
    None,
    /// `compressible`
    Compressible,
    /// `incompressible`
    Incompressible,
}

/// `read_from_replica`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadFromReplica {
    /// `no`: from the primary OSD alone.
    No,
    /// `balance`: from any.
    Balance,
    /// `localize`: from the nearest by `crush_location`.
    Localize,
}

/// `ms_mode`: the protocol towards the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MsMode {
    /// `legacy`: msgr1, to the monitors' v1 addresses.
    Legacy,
    /// `crc`: msgr2, with checksums, without encryption.
    Crc,
    /// `secure`: msgr2, encrypted.
    Secure,
    /// `prefer-crc`: msgr2, encrypted only if the cluster insists.
    PreferCrc,
    /// `prefer-secure`: msgr2, encrypted unless the cluster refuses.
    PreferSecure,
}

macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),* }) => {
        impl $type {
            fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $word),* })
            }
        }
    };
}

words!(CompressionHint { None = "none", Compressible = "compressible", Incompressible = "incompressible" });
words!(ReadFromReplica { No = "no", Balance = "balance", Localize = "localize" });
words!(MsMode {
    Legacy = "legacy", Crc = "crc", Secure = "secure", PreferCrc = "prefer-crc", PreferSecure = "prefer-secure"
});

impl MsMode {
    /// Whether it speaks msgr2, to the monitors' v2 addresses.
    pub fn is_msgr2(self) -> bool {
        self != Self::Legacy
    }
}

impl MapOption {
    /// The word that tells options apart and by which they are sorted: the positive one, `rw` for read-only.
    pub fn key(&self) -> &'static str {
        match self {
            Self::AbortOnFull => "abort_on_full",
            Self::AllocSize(_) => "alloc_size",
            Self::CephxRequireSignatures(_) => "cephx_require_signatures",
            Self::CephxSignMessages(_) => "cephx_sign_messages",
            Self::CompressionHint(_) => "compression_hint",
            Self::Crc(_) => "crc",
            Self::CrushLocation(_) => "crush_location",
            Self::Exclusive => "exclusive",
            Self::Fsid(_) => "fsid",
            Self::Ip(_) => "ip",
            Self::LockOnRead => "lock_on_read",
            Self::LockTimeout(_) => "lock_timeout",
            Self::MountTimeout(_) => "mount_timeout",
            Self::MsMode(_) => "ms_mode",
            Self::NoTrim => "notrim",
            Self::OsdIdleTtl(_) => "osd_idle_ttl",
            Self::OsdRequestTimeout(_) => "osd_request_timeout",
            Self::OsdKeepalive(_) => "osdkeepalive",
            Self::QueueDepth(_) => "queue_depth",
            Self::ReadFromReplica(_) => "read_from_replica",
            Self::ReadOnly(_) => "rw",
            Self::RxBounce => "rxbounce",
            Self::Share(_) => "share",
            Self::TcpNodelay(_) => "tcp_nodelay",
            Self::Udev(_) => "udev",
        }
    }

    /// Refuses what the kernel would refuse, and what would end the option or the string of options early.
    pub(super) fn check(&self) -> Result<()> {
        // The kernel turns seconds into milliseconds in an int.
        const LONGEST: u64 = i32::MAX as u64 / 1000;
        let seconds =
            |value: &Duration, least| (least..=LONGEST).contains(&value.as_secs()) && value.subsec_nanos() == 0;
        let valid = match self {
            // The kernel keeps both in an int.
            Self::AllocSize(bytes) => (512..=i32::MAX as u32).contains(bytes) && bytes.is_power_of_two(),
            Self::QueueDepth(depth) => (1..=i32::MAX as u32).contains(depth),
            Self::MountTimeout(value) | Self::LockTimeout(value) | Self::OsdRequestTimeout(value) => seconds(value, 0),
            Self::OsdIdleTtl(value) | Self::OsdKeepalive(value) => seconds(value, 1),
            Self::CrushLocation(location) => location.split('|').all(|place| {
                let legal = |part: &str| {
                    !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic() && !matches!(c, ',' | ':'))
                };
                place.split_once(':').is_some_and(|(kind, name)| legal(kind) && legal(name))
            }),
            _ => true,
        };
        if valid { Ok(()) } else { Err(self.invalid()) }
    }

    fn invalid(&self) -> Error {
        let text = self.to_string();
        let (key, value) = text.split_once('=').unwrap_or((&text, ""));
        refused(key, format!("invalid {key} value '{value}'"))
    }
}

pub(super) fn refused(word: &str, why: String) -> Error {
    Error::new(ErrorKind::InvalidInput, "read map option").with_object(word).with_hint(why)
}

impl fmt::Display for MapOption {
    /// As rbd(8) writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        match self {
            Self::AbortOnFull | Self::Exclusive | Self::LockOnRead | Self::NoTrim | Self::RxBounce => f.write_str(key),
            Self::ReadOnly(yes) => f.write_str(if *yes { "ro" } else { "rw" }),
            Self::CephxRequireSignatures(yes)
            | Self::CephxSignMessages(yes)
            | Self::Crc(yes)
            | Self::Share(yes)
            | Self::TcpNodelay(yes)
            | Self::Udev(yes) => write!(f, "{}{key}", if *yes { "" } else { "no" }),
            Self::AllocSize(number) | Self::QueueDepth(number) => write!(f, "{key}={number}"),
            Self::LockTimeout(time)
            | Self::MountTimeout(time)
            | Self::OsdIdleTtl(time)
            | Self::OsdRequestTimeout(time)
            | Self::OsdKeepalive(time) => write!(f, "{key}={}", time.as_secs_f64()),
            Self::CompressionHint(hint) => write!(f, "{key}={hint}"),
            Self::CrushLocation(location) => write!(f, "{key}={location}"),
            Self::Fsid(fsid) => write!(f, "{key}={fsid}"),
            // As `rbd` does, with the port also where it is 0, so that both make equal options.
            Self::Ip(address) => write!(f, "{key}={address}"),
            Self::MsMode(mode) => write!(f, "{key}={mode}"),
            Self::ReadFromReplica(which) => write!(f, "{key}={which}"),
        }
    }
}

impl FromStr for MapOption {
    type Err = Error;

    /// One word of `-o`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`], with rbd's own words as the hint: the option is unknown, lacks a value, has one too
    /// many, or one that the kernel would refuse.
    fn from_str(word: &str) -> Result<Self> {
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (word, None),
        };
        let flag = |option: Self| match value {
            None => Ok(option),
            Some(_) => Err(refused(key, format!("{key} option takes no value"))),
        };
        let text = || match value {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(refused(key, format!("{key} option requires a value"))),
        };
        let invalid = || refused(key, format!("invalid {key} value '{}'", value.unwrap_or_default()));
        let number = || text()?.parse::<u32>().map_err(|_| invalid());
        let seconds = || Ok(Duration::from_secs(number()?.into()));
        let option = match key {
            "abort_on_full" => flag(Self::AbortOnFull),
            "alloc_size" => number().map(Self::AllocSize),
            "cephx_require_signatures" => flag(Self::CephxRequireSignatures(true)),
            "nocephx_require_signatures" => flag(Self::CephxRequireSignatures(false)),
            "cephx_sign_messages" => flag(Self::CephxSignMessages(true)),
            "nocephx_sign_messages" => flag(Self::CephxSignMessages(false)),
            "compression_hint" => CompressionHint::from_word(text()?).map(Self::CompressionHint).ok_or_else(invalid),
            "crc" => flag(Self::Crc(true)),
            "nocrc" => flag(Self::Crc(false)),
            "crush_location" => Ok(Self::CrushLocation(text()?.to_owned())),
            "exclusive" => flag(Self::Exclusive),
            "fsid" => text()?.parse().map(Self::Fsid).map_err(|_| invalid()),
            "ip" => address(text()?).map(Self::Ip).ok_or_else(invalid),
            "lock_on_read" => flag(Self::LockOnRead),
            "lock_timeout" => seconds().map(Self::LockTimeout),
            "mount_timeout" => seconds().map(Self::MountTimeout),
            "ms_mode" => MsMode::from_word(text()?).map(Self::MsMode).ok_or_else(invalid),
            "notrim" => flag(Self::NoTrim),
            "osd_idle_ttl" => seconds().map(Self::OsdIdleTtl),
            "osd_request_timeout" => seconds().map(Self::OsdRequestTimeout),
            "osdkeepalive" => seconds().map(Self::OsdKeepalive),
            "queue_depth" => number().map(Self::QueueDepth),
            "read_from_replica" => ReadFromReplica::from_word(text()?).map(Self::ReadFromReplica).ok_or_else(invalid),
            "ro" => flag(Self::ReadOnly(true)),
            "rw" => flag(Self::ReadOnly(false)),
            "rxbounce" => flag(Self::RxBounce),
            "share" => flag(Self::Share(true)),
            "noshare" => flag(Self::Share(false)),
            "tcp_nodelay" => flag(Self::TcpNodelay(true)),
            "notcp_nodelay" => flag(Self::TcpNodelay(false)),
            "udev" => flag(Self::Udev(true)),
            "noudev" => flag(Self::Udev(false)),
            _ => Err(refused(key, format!("unknown map option '{key}'"))),
        }?;
        option.check()?;
        Ok(option)
    }
}

/// `1.2.3.4`, `1.2.3.4:5`, `::1`, `[::1]` or `[::1]:5`.
fn address(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let bare = bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    bare.or_else(|_| text.parse()).ok()
}
