//! The addresses of the monitors, and those of them that a messenger protocol can use.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use super::{EntityAddress, Protocol};
use crate::error::{Error, ErrorKind, Result};

/// The monitors of a cluster, each with all its addresses: what `mon_host` says, or the live monmap.
///
/// `mon_host` separates monitors by commas, semicolons or white space; a monitor with several addresses has them in
/// brackets: `[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0]`. Host names are an error that names them: neither the kernel
/// nor this type looks names up.
///
/// ```
/// use rbd::address::{MonitorAddresses, Protocol};
///
/// let monitors: MonitorAddresses = "[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0] 192.0.2.2".parse()?;
/// assert_eq!(monitors.for_protocol(Protocol::V1)?, ["192.0.2.1:6789".parse()?, "192.0.2.2:6789".parse()?]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MonitorAddresses(Vec<Vec<EntityAddress>>);

impl MonitorAddresses {
    /// The monitors, each given as the list of its addresses (`public_addrs` in `ceph mon dump`); empty lists are left
    /// out.
    pub fn new(monitors: impl IntoIterator<Item = Vec<EntityAddress>>) -> Self {
        Self(monitors.into_iter().filter(|addresses| !addresses.is_empty()).collect())
    }

    /// The addresses of each monitor, as they were given: a port that was left out is 0.
    pub fn monitors(&self) -> impl ExactSizeIterator<Item = &[EntityAddress]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// The addresses at which the monitors speak this protocol, with their ports: what the kernel's map request lists.
    ///
    /// An address without a prefix counts by its port: 3300 is v2, 6789 is v1. Without a port it counts as both, at
    /// the default port of each; with any other port it counts as both too, as Ceph tries both there.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if no monitor has such an address.
    pub fn for_protocol(&self, protocol: Protocol) -> Result<Vec<SocketAddr>> {
        let chosen: Vec<_> = self.0.iter().flatten().filter_map(|address| endpoint(address, protocol)).collect();
        if chosen.is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "choose monitor addresses")
                .with_object(self)
                .with_hint(format!("no monitor has an address that speaks {protocol}: another ms_mode is needed")));
        }
        Ok(chosen)
    }
}

/// Where the address speaks this protocol, if it does.
fn endpoint(address: &EntityAddress, protocol: Protocol) -> Option<SocketAddr> {
    let by_port = [Protocol::V1, Protocol::V2].into_iter().find(|p| p.monitor_port() == address.port());
    let speaks = match address.protocol().or(by_port) {
        Some(known) => known == protocol,
        None => true,
    };
    let port = match address.port() {
        0 => protocol.monitor_port(),
        port => port,
    };
    (speaks && !address.ip().is_unspecified()).then(|| SocketAddr::new(address.ip(), port))
}

impl fmt::Display for MonitorAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, monitor) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            match monitor.as_slice() {
                [address] => write!(f, "{comma}{address}")?,
                addresses => {
                    let addresses: Vec<_> = addresses.iter().map(EntityAddress::to_string).collect();
                    write!(f, "{comma}[{}]", addresses.join(","))?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for MonitorAddresses {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let monitors = split_outside_brackets(text).map(parse_monitor).collect::<Result<Vec<_>>>()?;
        let monitors = Self::new(monitors);
        if monitors.0.is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "parse mon_host").with_hint("it names no monitor"));
        }
        Ok(monitors)
    }
}

/// The parts between commas, semicolons and white space, but not those in brackets; empty parts are left out.
fn split_outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (matches!(c, ',' | ';') || c.is_whitespace())
    })
    .filter(|part| !part.is_empty())
}

fn parse_monitor(text: &str) -> Result<Vec<EntityAddress>> {
    let list = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match (parse_address(text), list) {
        // A single IPv6 address stands in brackets too.
        (Ok(address), _) => Ok(vec![address]),
        (Err(_), Some(list)) => split_outside_brackets(list).map(parse_address).collect(),
        (Err(error), None) => Err(error),
    }
}

fn parse_address(text: &str) -> Result<EntityAddress> {
    text.parse().map_err(|error: Error| match host_name(text) {
        Some(host) => Error::new(ErrorKind::InvalidInput, "parse mon_host")
            .with_object(host)
            .with_hint("a host name: resolve it first, only IP addresses can be used"),
        None => error,
    })
}

/// The host names in a `mon_host`, which librados looks up, and nothing else here does.
///
/// # Errors
///
/// `InvalidInput` for what is neither an address nor a host name.
#[cfg(feature = "librados")]
pub(crate) fn host_names(text: &str) -> Result<Vec<&str>> {
    let mut hosts = Vec::new();
    for monitor in split_outside_brackets(text).filter(|monitor| monitor.parse::<EntityAddress>().is_err()) {
        let list = monitor.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(monitor);
        for address in split_outside_brackets(list) {
            if let Err(error) = address.parse::<EntityAddress>() {
                hosts.push(host_name(address).ok_or(error)?);
            }
        }
    }
    Ok(hosts)
}

/// The host name in `[v1:|v2:|any:]HOST[:PORT][/NONCE]`, if that is what stands there.
fn host_name(text: &str) -> Option<&str> {
    let text = ["v1:", "v2:", "any:"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    let host = text.split([':', '/']).next()?;
    let is_name = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        && host.bytes().any(|b| b.is_ascii_alphabetic())
        && text.matches(':').count() < 2;
    is_name.then_some(host)
}
