//! Commands: JSON to a daemon, bytes and a text back. And what is built from them: pools, keys, the blocklist.

use std::fmt;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cluster::Cluster;
use crate::address::{EntityAddress, MonitorAddresses};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::cluster::{Answer, Daemon, RadosHandle};
use crate::ffi::io::IoHandle;
use crate::name::PoolName;
use crate::secret::Secret;

/// What a daemon answered to a command.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The output, JSON where the command asked for `"format": "json"`.
    pub data: Vec<u8>,
    /// The text that the `ceph` program prints on its standard error.
    pub status: String,
}

/// Without the output, which is a key where one was asked for.
impl fmt::Debug for CommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandOutput").field("bytes", &self.data.len()).field("status", &self.status).finish()
    }
}

impl CommandOutput {
    /// The output as JSON.
    ///
    /// # Errors
    ///
    /// `InvalidData` where it is none, or not of this shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.data)
            .map_err(|error| Error::new(ErrorKind::InvalidData, "read answer of command").with_source(error))
    }
}

/// An entry of the cluster's blocklist.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BlocklistEntry {
    /// The client, or with a nonce of 0 every client of that IP address.
    pub address: EntityAddress,
    /// When the entry ends, as the monitors print it: local time of the monitor with its offset from UTC.
    pub until: String,
}

impl BlocklistEntry {
    /// Whether a client with this address is refused by the entry: its own, or one of its whole IP address
    /// (`OSDMap::is_blocklisted`).
    pub fn hits(&self, client: &EntityAddress) -> bool {
        let whole_ip = EntityAddress::new(client.ip(), 0, 0);
        self.address.same_endpoint(client) || self.address.same_endpoint(&whole_ip)
    }
}

/// How a new pool is made; the rest is the cluster's default.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PoolOptions {
    /// The number of placement groups; at least 1.
    pub pg_num: Option<u32>,
    /// The application that the pool is tagged with, such as `rbd`. Without one Ceph warns.
    pub application: Option<String>,
}

impl PoolOptions {
    /// A pool for images, tagged `rbd`.
    pub fn for_images() -> Self {
        Self { application: Some("rbd".into()), ..Self::default() }
    }

    /// The number of placement groups; at least 1.
    #[must_use]
    pub fn pg_num(mut self, number: u32) -> Self {
        self.pg_num = Some(number);
        self
    }
}

impl Cluster {
    /// Sends a command to the monitors, as `ceph` does: `json!({"prefix": "osd dump", "format": "json"})`, or a type of
    /// the caller's that serialises to such an object. The size of the answer has no ceiling.
    ///
    /// # Errors
    ///
    /// What the command answers, with its own text; `TimedOut`.
    #[doc(alias = "rados_mon_command")]
    pub fn mon_command(&self, command: &impl Serialize) -> Result<CommandOutput> {
        self.ask(Daemon::Mon, "ask the monitors for", command)
    }

    /// Sends a command to the active manager. Where there is none, the command waits for one, also when its deadline has
    /// passed.
    ///
    /// # Errors
    ///
    /// As [`mon_command`](Self::mon_command).
    #[doc(alias = "rados_mgr_command")]
    pub fn mgr_command(&self, command: &impl Serialize) -> Result<CommandOutput> {
        self.ask(Daemon::Mgr, "ask the manager for", command)
    }

    /// Sends a command to an OSD.
    ///
    /// # Errors
    ///
    /// As [`mon_command`](Self::mon_command).
    #[doc(alias = "rados_osd_command")]
    pub fn osd_command(&self, id: i32, command: &impl Serialize) -> Result<CommandOutput> {
        self.ask(Daemon::Osd(id), "ask an OSD for", command)
    }

    fn ask(&self, daemon: Daemon, operation: &'static str, command: &impl Serialize) -> Result<CommandOutput> {
        let command = serde_json::to_value(command).map_err(|error| {
            Error::new(ErrorKind::InvalidInput, operation).with_object("a command").with_source(error)
        })?;
        let prefix = command.get("prefix").and_then(Value::as_str).unwrap_or("a command without prefix");
        self.command(daemon, &command, operation, &prefix)
    }

    /// Sends a command; its failure is that of the operation on the object.
    fn command(
        &self,
        daemon: Daemon,
        command: &Value,
        operation: &'static str,
        object: &dyn Display,
    ) -> Result<CommandOutput> {
        let (rados, text) = (Arc::clone(&self.connection.rados), command.to_string());
        let answer = self.connection.run(operation, object, self.deadline, move || rados.command(daemon, &text))?;
        match answer {
            Ok(Answer { output, status }) => Ok(CommandOutput { data: output, status }),
            Err((errno, status)) => {
                let error = self.connection.error(operation, object, errno);
                Err(if status.is_empty() { error } else { error.with_hint(status) })
            }
        }
    }

    /// The same connection, for a step of a call that may take until `deadline`.
    pub(crate) fn until(&self, deadline: Deadline) -> Self {
        Self { deadline: deadline.left(), ..self.clone() }
    }

    /// Makes a pool. One that has placement groups still to be made is usable: I/O waits for them.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; for a number of placement groups that the cluster refuses, what it says, and `InvalidInput` for 0,
    /// which it would take for its default.
    pub fn create_pool(&self, pool: &PoolName, options: &PoolOptions) -> Result<()> {
        const CREATE: &str = "create pool";
        let deadline = Deadline::after(self.deadline);
        if options.pg_num == Some(0) {
            return Err(Error::new(ErrorKind::InvalidInput, CREATE)
                .with_object(pool)
                .with_hint("a pool has at least one placement group"));
        }
        match self.pool_id(pool) {
            // The monitors call it a success.
            Ok(_) => return Err(Error::from_errno(CREATE, libc::EEXIST).with_object(pool)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut command = json!({"prefix": "osd pool create", "pool": pool.as_str()});
        if let Some(number) = options.pg_num {
            command["pg_num"] = number.into();
        }
        self.until(deadline).command(Daemon::Mon, &command, CREATE, pool)?;
        let Some(application) = options.application.clone() else { return Ok(()) };
        let name = pool.clone();
        let rados = Arc::clone(&self.connection.rados);
        self.connection.call("enable application of pool", pool, deadline.left(), move || {
            let id = rados.pool_id(name.as_str())?;
            IoHandle::create(&rados, id, None)?.enable_application(&application)
        })
    }

    /// Deletes a pool **and all data in it**. `confirmation` must be the pool's name once more; the cluster must allow
    /// it too (`mon_allow_pool_delete`).
    #[doc(alias = "rados_pool_delete")]
    pub fn delete_pool_with_all_data(&self, pool: &PoolName, confirmation: &str) -> Result<()> {
        const DELETE: &str = "delete pool";
        if confirmation != pool.as_str() {
            return Err(Error::new(ErrorKind::InvalidInput, DELETE)
                .with_object(pool)
                .with_hint("the confirmation is not the pool's name; nothing was deleted"));
        }
        let name = pool.clone();
        self.call(DELETE, pool, move |rados| rados.delete_pool(name.as_str()))
    }

    /// The release that the monitors run, such as `ceph version 16.2.15 (…) pacific (stable)`.
    pub fn cluster_version(&self) -> Result<String> {
        #[derive(Deserialize)]
        struct Answer {
            version: String,
        }
        let answer: Answer = self.mon_command(&json!({"prefix": "version", "format": "json"}))?.json()?;
        Ok(answer.version)
    }

    /// The monitors of the live monmap, each with all its addresses, which may be others than those that the
    /// configuration names.
    pub fn monitors(&self) -> Result<MonitorAddresses> {
        #[derive(Deserialize)]
        struct Dump {
            mons: Vec<Monitor>,
        }
        #[derive(Deserialize)]
        struct Monitor {
            public_addrs: AddressVector,
        }
        #[derive(Deserialize)]
        struct AddressVector {
            addrvec: Vec<TypedAddress>,
        }
        #[derive(Deserialize)]
        struct TypedAddress {
            r#type: String,
            addr: String,
            nonce: u32,
        }
        let dump: Dump = self.mon_command(&json!({"prefix": "mon dump", "format": "json"}))?.json()?;
        let monitors = dump.mons.into_iter().map(|monitor| {
            let addresses = monitor.public_addrs.addrvec.into_iter();
            addresses.map(|address| format!("{}:{}/{}", address.r#type, address.addr, address.nonce).parse()).collect()
        });
        let monitors = monitors.collect::<Result<Vec<_>>>();
        monitors.map(MonitorAddresses::new).map_err(|error| error.with_kind(ErrorKind::InvalidData))
    }

    /// Looks up a user's key, as `ceph auth get-key` does; it needs the monitor capability for that.
    pub fn auth_key(&self, entity: &str) -> Result<Secret> {
        #[derive(Deserialize)]
        struct Answer {
            key: String,
        }
        const LOOK_UP: &str = "look up key of";
        let command = json!({"prefix": "auth get-key", "entity": entity, "format": "json"});
        let output = self.command(Daemon::Mon, &command, LOOK_UP, &entity)?;
        let bytes = zeroize::Zeroizing::new(output.data);
        // The error of a failed parse could quote the answer: it is not passed on.
        let answer: Answer = serde_json::from_slice(&bytes)
            .map_err(|_| Error::new(ErrorKind::InvalidData, LOOK_UP).with_object(entity))?;
        Ok(Secret::new(answer.key))
    }

    /// The clients that the cluster refuses to serve.
    pub fn blocklist(&self) -> Result<Vec<BlocklistEntry>> {
        let command = json!({"prefix": "osd blocklist ls", "format": "json"});
        parse_blocklist(&self.command(Daemon::Mon, &command, READ_BLOCKLIST, &"of cluster")?.data)
    }

    /// Refuses to serve a client, for `expiry`, a century at the most. Its address is taken whole, with port and nonce, so
    /// that no other client of that host is hit.
    ///
    /// An OSD refuses once it has the map that says so. This connection has it when the call returns, and every OSD that it
    /// asks for something from then on has it too, before it answers; others get it within moments.
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
        if !self.blocklist()?.iter().any(|entry| entry.address.same_endpoint(client)) {
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
/// are no entity addresses and are left out.
fn parse_blocklist(answer: &[u8]) -> Result<Vec<BlocklistEntry>> {
    #[derive(Deserialize)]
    struct Entry {
        addr: String,
        until: String,
    }
    let mut arrays = serde_json::Deserializer::from_slice(answer).into_iter::<Vec<Entry>>();
    let clients = match arrays.next() {
        None => Vec::new(),
        Some(array) => array.map_err(|error| Error::new(ErrorKind::InvalidData, READ_BLOCKLIST).with_source(error))?,
    };
    // What is no address cannot be a client's: somebody made an entry without one. It must not hide the others.
    let entries = clients.into_iter().filter_map(|entry| {
        let address = entry.addr.parse().ok()?;
        Some(BlocklistEntry { address, until: entry.until })
    });
    Ok(entries.collect())
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
            let entry = BlocklistEntry { address: entry.parse().unwrap(), until: String::new() };
            entry.hits(&client.parse().unwrap())
        };
        assert!(hits("192.0.2.1:0/7", "v1:192.0.2.1:0/7"));
        assert!(!hits("192.0.2.1:0/7", "192.0.2.1:0/8"));
        assert!(hits("[2001:db8::1]:0/0", "[2001:db8:0::1]:0/8"));
        assert!(!hits("192.0.2.1:0/0", "192.0.2.2:0/7"));
    }

    #[test]
    fn an_answer_that_is_no_blocklist_is_an_error() {
        assert_eq!(parse_blocklist(b"{}").unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(parse_blocklist(b"").unwrap(), []);
    }
}
