//! The address of one client or daemon: `192.0.2.10:0/2359070641`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::text::{decimal, quoted};

/// The version of the messenger protocol that an address speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Protocol {
    /// The legacy protocol; monitors speak it at port 6789.
    V1,
    /// The protocol since Ceph 14; monitors speak it at port 3300.
    V2,
}

impl Protocol {
    /// The port of monitors: 6789 (`CEPH_MON_PORT_LEGACY`) or 3300 (`CEPH_MON_PORT_IANA`).
    pub const fn monitor_port(self) -> u16 {
        match self {
            Self::V1 => 6789,
            Self::V2 => 3300,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

/// The address of a client or daemon, Ceph's `entity_addr_t`: `ip:port/nonce`.
///
/// A client has the port 0; its nonce tells it from the other clients of the same host. IPv6 stands in brackets. A
/// prefix `v1:` or `v2:` says the protocol; `any:` says none, and is left out again when the address is written, as
/// Ceph does. The text of a watcher, of the kernel's `client_addr` and of a blocklist entry is this one.
///
/// Equality is that of all parts; two spellings of one IPv6 address are equal.
/// [`same_endpoint`](Self::same_endpoint) leaves the protocol out.
///
/// ```
/// use rbd::EntityAddress;
///
/// let a: EntityAddress = "[2001:db8::1]:0/3012034728".parse()?;
/// let b: EntityAddress = "v1:[2001:db8:0:0:0:0:0:1]:0/3012034728".parse()?;
/// assert!(a.same_endpoint(&b));
/// # Ok::<(), rbd::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityAddress {
    ip: IpAddr,
    port: u16,
    nonce: u32,
    protocol: Option<Protocol>,
}

impl EntityAddress {
    /// No address: what Ceph writes as `-` or `:/0`.
    pub const BLANK: Self = Self::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0, 0);

    /// An address whose protocol is not said.
    pub const fn new(ip: IpAddr, port: u16, nonce: u32) -> Self {
        Self { ip, port, nonce, protocol: None }
    }

    /// The same address, of this protocol.
    #[must_use]
    pub const fn with_protocol(self, protocol: Protocol) -> Self {
        Self { protocol: Some(protocol), ..self }
    }

    /// The same address without saying its protocol: the form of watchers and of the blocklist.
    #[must_use]
    pub const fn without_protocol(self) -> Self {
        Self { protocol: None, ..self }
    }

    /// The IP address, as its owner sees it: in a container this may be one of the container's network namespace.
    pub const fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The port: 0 for clients.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What tells apart the clients of one IP address.
    pub const fn nonce(&self) -> u32 {
        self.nonce
    }

    /// The protocol, where the address says it.
    pub const fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Whether there is no address in it: no IP address (all zeros), no port and no nonce.
    pub fn is_blank(&self) -> bool {
        self.ip.is_unspecified() && self.port == 0 && self.nonce == 0
    }

    /// Whether both are the same IP address, port and nonce, whatever protocol they say.
    pub fn same_endpoint(&self, other: &Self) -> bool {
        (self.ip, self.port, self.nonce) == (other.ip, other.port, other.nonce)
    }
}

impl fmt::Display for EntityAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::BLANK {
            return f.write_str("-");
        }
        if let Some(protocol) = self.protocol {
            write!(f, "{protocol}:")?;
        }
        write!(f, "{}/{}", SocketAddr::new(self.ip, self.port), self.nonce)
    }
}

impl FromStr for EntityAddress {
    type Err = Error;

    /// The port and the nonce may be left out and are 0 then.
    fn from_str(text: &str) -> Result<Self> {
        parse(text).map_err(|fault| {
            Error::new(ErrorKind::InvalidInput, "parse address").with_object(quoted(text)).with_hint(fault)
        })
    }
}

/// What is wrong with an address, as a hint.
type Fault = &'static str;

const NO_ADDRESS: Fault = "an address is IP:PORT/NONCE, with IPv6 in brackets";
const BRACKETS: Fault = "ambiguous: IPv6 with a port needs brackets, such as [2001:db8::1]:3300";
const ZONE: Fault = "an IPv6 zone (%) cannot be part of an address in Ceph";
const PORT: Fault = "the port is a number up to 65535";
const NONCE: Fault = "the nonce is a number up to 4294967295";

fn parse(text: &str) -> Result<EntityAddress, Fault> {
    if text == "-" {
        return Ok(EntityAddress::BLANK);
    }
    let (protocol, rest) = if let Some(rest) = text.strip_prefix("v1:") {
        (Some(Protocol::V1), rest)
    } else if let Some(rest) = text.strip_prefix("v2:") {
        (Some(Protocol::V2), rest)
    } else {
        (None, text.strip_prefix("any:").unwrap_or(text))
    };
    let (endpoint, nonce) = match rest.split_once('/') {
        Some((endpoint, nonce)) => (endpoint, decimal(nonce).ok_or(NONCE)?),
        None => (rest, 0),
    };
    // Ceph prints an address without a family as `:/0`.
    let blank = rest.starts_with(":/");
    let (ip, port) = if blank { (Ipv4Addr::UNSPECIFIED.into(), 0) } else { parse_endpoint(endpoint)? };
    Ok(EntityAddress { ip, port, nonce, protocol })
}

fn parse_endpoint(endpoint: &str) -> Result<(IpAddr, u16), Fault> {
    if endpoint.contains('%') {
        return Err(ZONE);
    }
    if let Some(rest) = endpoint.strip_prefix('[') {
        let (ip, after) = rest.split_once(']').ok_or(NO_ADDRESS)?;
        // Ceph takes IPv4 in brackets too.
        let ip = ip.parse().map_err(|_| NO_ADDRESS)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((ip, decimal(port).ok_or(PORT)?)),
            None if after.is_empty() => Ok((ip, 0)),
            None => Err(NO_ADDRESS),
        };
    }
    match endpoint.rsplit_once(':') {
        None => Ok((endpoint.parse::<Ipv4Addr>().map_err(|_| NO_ADDRESS)?.into(), 0)),
        Some((ip, _)) if ip.contains(':') => Ok((parse_bare_ipv6(endpoint)?.into(), 0)),
        Some((ip, port)) => Ok((ip.parse::<Ipv4Addr>().map_err(|_| NO_ADDRESS)?.into(), decimal(port).ok_or(PORT)?)),
    }
}

/// IPv6 without brackets, if no part of it can be taken for a port.
fn parse_bare_ipv6(text: &str) -> Result<Ipv6Addr, Fault> {
    let with_port = text
        .rsplit_once(':')
        .is_some_and(|(ip, port)| ip.parse::<Ipv6Addr>().is_ok() && port.bytes().all(|b| b.is_ascii_digit()));
    if with_port { Err(BRACKETS) } else { text.parse().map_err(|_| NO_ADDRESS) }
}

#[cfg(feature = "serde")]
impl serde::Serialize for EntityAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
