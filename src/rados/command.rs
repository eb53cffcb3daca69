//! Commands: JSON to a daemon, bytes and a text back. And what is built from them: pools, keys, the blocklist.

use std::fmt;
use std::fmt::Display;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cluster::Cluster;
use crate::address::MonitorAddresses;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::cluster::{Answer, Daemon};
use crate::ffi::io::IoHandle;
use crate::name::PoolName;
use crate::secret::Secret;

/// What a daemon answered to a command.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
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
    /// `InvalidData` where it is none, or not of this shape; what caused it may quote a value of the output.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.data)
            .map_err(|error| Error::new(ErrorKind::InvalidData, "read answer of command").with_source(error))
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

    /// Sends a command to the active manager. Where there is none, the command waits for one, also when its deadline
    /// has passed.
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
    pub(super) fn command(
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
    /// `AlreadyExists`; for a number of placement groups that the cluster refuses, what it says, and `InvalidInput` for
    /// 0, which it would take for its default.
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
    ///
    /// # Errors
    ///
    /// `InvalidInput` for another confirmation; `PermissionDenied` where the cluster does not allow it; as
    /// [`mon_command`](Self::mon_command).
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
    ///
    /// # Errors
    ///
    /// As [`mon_command`](Self::mon_command).
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
    ///
    /// # Errors
    ///
    /// As [`mon_command`](Self::mon_command).
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
    ///
    /// # Errors
    ///
    /// `NotFound` for a user that the cluster does not have, and as [`mon_command`](Self::mon_command).
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
}
