//! The blocklist: whom the cluster refuses to serve.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::cluster::Cluster;
use crate::address::EntityAddress;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::cluster::{Daemon, RadosHandle};

/// An entry of the cluster's blocklist.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BlocklistEntry {
    /// The client; with neither port nor nonce every client of that IP address.
    pub address: EntityAddress,
    /// For a range of IP addresses (`ceph osd blocklist range`), how many of the bits of `address` count.
    pub prefix: Option<u32>,
    /// When the entry ends, as the monitors print it: local time of the monitor with its offset from UTC.
    pub until: String,
}

impl BlocklistEntry {
    /// The entry of a client.
    pub fn new(address: EntityAddress, until: impl Into<String>) -> Self {
        Self { address, prefix: None, until: until.into() }
    }

    /// Whether a client with this address is refused by the entry (`OSDMap::is_blocklisted`).
    pub fn hits(&self, client: &EntityAddress) -> bool {
        match self.prefix {
            Some(prefix) => in_range(client.ip(), self.address.ip(), prefix),
            None => {
                let whole_ip = EntityAddress::new(client.ip(), 0, 0);
                self.address.same_endpoint(client) || self.address.same_endpoint(&whole_ip)
            }
        }
    }
}

fn in_range(ip: IpAddr, range: IpAddr, prefix: u32) -> bool {
    match (ip, range) {
        (IpAddr::V4(ip), IpAddr::V4(range)) => {
            let differing = ip.to_bits() ^ range.to_bits();
            differing.checked_shr(32_u32.saturating_sub(prefix)).unwrap_or(0) == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(range)) => {
            let differing = ip.to_bits() ^ range.to_bits();
            differing.checked_shr(128_u32.saturating_sub(prefix)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// `192.0.2.1:0/3710147553`, or for a range `192.0.2.0/24`.
impl fmt::Display for BlocklistEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix {
            Some(prefix) => write!(f, "{}/{prefix}", self.address.ip()),
            None => write!(f, "{}", self.address),
        }
    }
}

impl Cluster {
    /// Whom the cluster refuses to serve: clients, and ranges of addresses.
    ///
    /// # Errors
    ///
    /// As [`mon_command`](Self::mon_command).
    pub fn blocklist(&self) -> Result<Vec<BlocklistEntry>> {
        let command = json!({"prefix": "osd blocklist ls", "format": "json"});
        parse_blocklist(&self.command(Daemon::Mon, &command, READ_BLOCKLIST, &"of cluster")?.data)
    }

    /// Refuses to serve a client, for `expiry`, a century at the most. Its address is taken whole, with port and nonce,
    /// so that no other client of that host is hit.
    ///
    /// An OSD refuses once it has the map that says so. This connection has it when the call returns, and every OSD
    /// that it asks for something from then on has it too, before it answers; others get it within moments.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a blank address, and for no time: that entry would end at once.
    pub fn blocklist_add(&self, client: &EntityAddress, expiry: Duration) -> Result<()> {
        const ADD: &str = "add to blocklist";
        // Beyond what its clock holds Ceph makes an entry that has ended already.
        const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
        if client.ip().is_unspecified() || expiry.is_zero() {
            let error = Error::new(ErrorKind::InvalidInput, ADD).with_object(client);
            return Err(error.with_hint("it takes a client's address, and a time for which it holds"));
        }
        let mut command = change_blocklist("add", client);
        command["expire"] = expiry.min(LONGEST).as_secs_f64().into();
        let deadline = Deadline::after(self.deadline);
        self.command(Daemon::Mon, &command, ADD, client)?;
        self.until(deadline).call(ADD, client, RadosHandle::wait_for_latest_map)
    }

    /// Takes a client off the blocklist. Its connections stay useless all the same.
    ///
    /// # Errors
    ///
    /// `NotFound` where it is not on the list.
    pub fn blocklist_remove(&self, client: &EntityAddress) -> Result<()> {
        const REMOVE: &str = "remove from blocklist";
        let deadline = Deadline::after(self.deadline);
        // The monitors call it a success when the entry is not there.
        let is_it = |entry: &BlocklistEntry| entry.prefix.is_none() && entry.address.same_endpoint(client);
        if !self.blocklist()?.iter().any(is_it) {
            return Err(Error::from_errno(REMOVE, libc::ENOENT).with_object(client));
        }
        self.until(deadline).command(Daemon::Mon, &change_blocklist("rm", client), REMOVE, client).map(drop)
    }
}

fn change_blocklist(operation: &str, client: &EntityAddress) -> Value {
    json!({
        "prefix": "osd blocklist",
        "blocklistop": operation,
        "addr": client.without_protocol().to_string(),
    })
}

/// Reads what `osd blocklist ls` answers. Ceph 16.2 prints two arrays, one after the other: clients, then ranges, which
/// it prints as if the length of the prefix were a nonce.
fn parse_blocklist(answer: &[u8]) -> Result<Vec<BlocklistEntry>> {
    #[derive(Deserialize)]
    struct Entry {
        addr: Option<String>,
        range: Option<String>,
        until: String,
    }
    let mut entries = Vec::new();
    for array in serde_json::Deserializer::from_slice(answer).into_iter::<Vec<Entry>>() {
        let array = array.map_err(|error| Error::new(ErrorKind::InvalidData, READ_BLOCKLIST).with_source(error))?;
        // What is no address cannot be a client's: somebody made an entry without one. It must not hide the others.
        entries.extend(array.into_iter().filter_map(|Entry { addr, range, until }| {
            let Some(range) = range else { return Some(BlocklistEntry::new(addr?.parse().ok()?, until)) };
            let range: EntityAddress = range.parse().ok()?;
            let address = EntityAddress::new(range.ip(), 0, 0);
            Some(BlocklistEntry { address, prefix: Some(range.nonce()), until })
        }));
    }
    Ok(entries)
}

const READ_BLOCKLIST: &str = "read blocklist";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocklist_of_two_arrays_gives_the_clients() {
        let answer = br#"[{"addr":"192.0.2.1:0/3710147553","until":"2026-11-30T21:00:00.000000+0000"}][]"#;
        let entries = parse_blocklist(answer).unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].address.to_string(), "192.0.2.1:0/3710147553");
        assert_eq!(entries[0].until, "2026-11-30T21:00:00.000000+0000");
    }

    #[test]
    fn an_entry_without_an_address_does_not_hide_the_others() {
        let answer =
            br#"[{"addr":"(unrecognized address family 0)/0","until":"x"},{"addr":"192.0.2.1:0/7","until":"y"}]"#;
        let entries = parse_blocklist(answer).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.address.to_string()).collect::<Vec<_>>(), ["192.0.2.1:0/7"]);
    }

    #[test]
    fn an_entry_hits_its_own_client_or_with_nothing_but_an_ip_all_of_that_ip() {
        let hits = |entry: &str, client: &str| {
            let entry = BlocklistEntry::new(entry.parse().unwrap(), "");
            entry.hits(&client.parse().unwrap())
        };
        assert!(hits("192.0.2.1:0/7", "v1:192.0.2.1:0/7"));
        assert!(!hits("192.0.2.1:0/7", "192.0.2.1:0/8"));
        assert!(hits("[2001:db8::1]:0/0", "[2001:db8:0::1]:0/8"));
        assert!(!hits("192.0.2.1:0/0", "192.0.2.2:0/7"));
    }

    /// As Ceph 16.2 prints them.
    #[test]
    fn a_range_hits_the_addresses_in_it_and_no_others() {
        let answer = br#"[][{"range":"192.0.2.0:0/25","until":"x"},{"range":"[2001:db8::]:0/32","until":"y"}]"#;
        let entries = parse_blocklist(answer).unwrap();
        assert_eq!(entries.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.0.2.0/25", "2001:db8::/32"]);
        let hit = |client: &str| {
            let client = client.parse().unwrap();
            entries.iter().map(|entry| entry.hits(&client)).collect::<Vec<_>>()
        };
        assert_eq!(hit("192.0.2.127:0/7"), [true, false]);
        assert_eq!(hit("192.0.2.128:0/7"), [false, false]);
        assert_eq!(hit("[2001:db8:ffff::1]:0/7"), [false, true]);
        assert_eq!(hit("[2001:db9::1]:0/7"), [false, false]);
        let everything = BlocklistEntry { prefix: Some(0), ..entries[0].clone() };
        assert!(everything.hits(&"198.51.100.1:0/1".parse().unwrap()));
        let one = BlocklistEntry { prefix: Some(4_000_000_000), ..entries[0].clone() };
        assert!(one.hits(&"192.0.2.0:0/1".parse().unwrap()) && !one.hits(&"192.0.2.1:0/1".parse().unwrap()));
    }

    #[test]
    fn an_answer_that_is_no_blocklist_is_an_error() {
        assert_eq!(parse_blocklist(b"{}").unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(parse_blocklist(b"").unwrap(), []);
    }
}
