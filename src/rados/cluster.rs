//! A connection to a cluster, and what the cluster as a whole can be asked.

use std::any::Any;
use std::ffi::c_void;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use super::builder::ClusterBuilder;
use super::connection::{Connection, check_outside_callbacks};
use super::pool::Pool;
use crate::address::{EntityAddress, MonitorAddresses};
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::cluster::RadosHandle;
use crate::ffi::{self, Errno};
use crate::fsid::Fsid;
use crate::name::{ImageSpec, PoolName, RawName};
use crate::version::Version;

/// A connection to a Ceph cluster. Clones share it; it is shut down when the last handle made from it is gone.
///
/// See the [module's table](crate::rados#handles) for threads and closing, and [there](crate::rados#errors) for what
/// every call may fail with.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub(crate) connection: Arc<Connection>,
    pub(crate) deadline: Option<Duration>,
}

impl Cluster {
    /// Says how to connect.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    pub(super) fn new(connection: Connection, deadline: Option<Duration>) -> Self {
        Self { connection: Arc::new(connection), deadline }
    }

    /// Uses a connection that other code in this program has made, such as one of another Rust crate. It is not shut
    /// down here: `keep_alive` is dropped after the last use, and should do it, or own what does.
    ///
    /// # Safety
    ///
    /// `raw` is a connected `rados_t`, and stays connected for as long as `keep_alive` lives.
    #[allow(unsafe_code)] // The one door for handles of others.
    pub unsafe fn from_raw(raw: *mut c_void, keep_alive: impl Any + Send + Sync) -> Self {
        // SAFETY: by this function's contract, which is the same.
        let rados = unsafe { RadosHandle::borrowed(raw, Box::new(keep_alive)) };
        // Whoever made it may have more under way than librados starts at once.
        Self::new(Connection::new(rados, false), Some(super::connection::DEFAULT_DEADLINE))
    }

    /// The `rados_t`, for C functions that this library does not have. It is valid for as long as any handle of this
    /// connection lives. Do not shut it down.
    pub fn as_raw(&self) -> *mut c_void {
        self.connection.rados.as_raw()
    }

    /// The same connection with another deadline for each call, that of handles made from it too.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self.clone() }
    }

    /// The same connection, with calls that may wait for ever.
    #[must_use]
    pub fn without_deadline(&self) -> Self {
        Self { deadline: None, ..self.clone() }
    }

    /// Shuts the connection down now and waits for that.
    ///
    /// # Errors
    ///
    /// `Busy` while other handles of this connection live, a call that passed its deadline is still under way, or a
    /// scan that was dropped waits for its last answers: the last of them will shut it down. `Busy` inside a callback
    /// of the library too: it is shut down on another thread then.
    #[doc(alias = "rados_shutdown")]
    pub fn disconnect(self) -> Result<()> {
        const DISCONNECT: &str = "disconnect from cluster";
        // Dropped, one that was inherited is left to the process that made it.
        self.connection.check_inherited(DISCONNECT, &"inherited through fork")?;
        check_outside_callbacks(DISCONNECT, &"of cluster")?;
        let busy = || Error::new(ErrorKind::Busy, DISCONNECT).with_hint("other handles of this connection are in use");
        let connection = Arc::into_inner(self.connection).ok_or_else(busy)?;
        // Dropping the only reference shuts down.
        Arc::into_inner(connection.rados).map(drop).ok_or_else(busy)
    }

    /// The cluster's identity.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rados_cluster_fsid")]
    pub fn fsid(&self) -> Result<Fsid> {
        let text = self.connection.local("read fsid", &"of cluster", RadosHandle::fsid)?;
        let fsid = String::from_utf8_lossy(&text).parse::<Fsid>();
        fsid.map_err(|error| error.with_kind(ErrorKind::InvalidData))
    }

    /// The full name of the user of this connection, such as `client.admin`.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the option that tells it was changed (`gss_ktab_client_file`).
    pub fn entity(&self) -> Result<String> {
        // C has no call for it, but puts it into the value of this option, a path that hardly anybody changes.
        const OPTION: &str = "gss_ktab_client_file";
        let path = self.config(OPTION)?;
        let name =
            path.strip_prefix("/var/lib/ceph/").and_then(|rest| rest.split_once('/')).map(|(name, _)| name.to_owned());
        name.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "read user of connection").with_hint(format!("{OPTION} was changed"))
        })
    }

    /// This connection's global id: the `N` of `client.N` in lists of watchers and lock owners.
    #[doc(alias = "rados_get_instance_id")]
    pub fn instance_id(&self) -> u64 {
        self.connection.instance_id
    }

    /// The addresses by which the cluster knows this connection, as a blocklist takes them.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rados_getaddrs")]
    pub fn addresses(&self) -> Result<Vec<EntityAddress>> {
        const READ: &str = "read own addresses";
        let text = self.connection.local(READ, &"of connection", RadosHandle::addresses)?;
        let addresses = text.parse::<MonitorAddresses>();
        let addresses = addresses.map_err(|error| Error::new(ErrorKind::InvalidData, READ).with_source(error))?;
        // An address vector has the form of one monitor's.
        Ok(addresses.monitors().flatten().copied().collect())
    }

    /// The value of a configuration option, as Ceph prints it.
    ///
    /// # Errors
    ///
    /// `NotFound` for an option that Ceph does not know; `PermissionDenied` for `key`, whose value is a secret.
    #[doc(alias = "rados_conf_get")]
    pub fn config(&self, option: &str) -> Result<String> {
        const READ: &str = "read option";
        // C takes off white space.
        if option.trim() == "key" {
            return Err(Error::new(ErrorKind::PermissionDenied, READ)
                .with_object(option)
                .with_hint("its value is a secret; auth_key() looks a user's key up"));
        }
        self.connection.check_inherited(READ, &option)?;
        self.connection.rados.config(option).map_err(|errno| self.connection.error(READ, &option, errno))
    }

    /// Versions of the installed librados (3.0.0 from Ceph 16 to 20) and librbd (1.16, 1.18, 1.20 …, which tells
    /// releases apart).
    #[doc(alias = "rados_version")]
    #[doc(alias = "rbd_version")]
    pub fn library_versions() -> (Version, Version) {
        let (rados, rbd) = ffi::library_versions();
        let version = |[major, minor, extra]: [i32; 3]| Version { major, minor, extra };
        (version(rados), version(rbd))
    }

    /// The names of all pools. A name that is no UTF-8 is listed like any other.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rados_pool_list")]
    pub fn pools(&self) -> Result<Vec<RawName>> {
        const LIST: &str = "list pools";
        let names = match self.connection.rados.has_map() {
            true => self.connection.local(LIST, &"of cluster", RadosHandle::pool_names)?,
            false => self.call(LIST, &"of cluster", RadosHandle::pool_names)?,
        };
        Ok(names.into_iter().map(RawName::from).collect())
    }

    /// A pool's id.
    ///
    /// # Errors
    ///
    /// `NotFound`, and as [every call](crate::rados#errors).
    #[doc(alias = "rados_pool_lookup")]
    pub fn pool_id(&self, pool: &PoolName) -> Result<i64> {
        let name = pool.clone();
        self.call("look up pool", pool, move |rados| rados.pool_id(name.as_str()))
    }

    /// A pool's name by its id.
    ///
    /// # Errors
    ///
    /// `NotFound`, and as [every call](crate::rados#errors).
    #[doc(alias = "rados_pool_reverse_lookup")]
    pub fn pool_name(&self, id: i64) -> Result<String> {
        self.call("look up pool", &format_args!("with id {id}"), move |rados| rados.pool_name(id))
    }

    /// The pool that the `rbd` program uses where none is named (`rbd_default_pool`).
    ///
    /// # Errors
    ///
    /// `InvalidName` where the option has none that Ceph takes.
    pub fn default_pool(&self) -> Result<PoolName> {
        self.config("rbd_default_pool")?.parse()
    }

    /// Opens a pool by its name.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `NotFound`, `TimedOut`.
    #[doc(alias = "rados_ioctx_create")]
    pub fn pool<N>(&self, name: N) -> Result<Pool>
    where
        N: TryInto<PoolName>,
        Error: From<N::Error>,
    {
        Pool::of(self, &name.try_into()?, None)
    }

    /// Opens the pool and namespace of an image's spec; [`Self::default_pool`] where it names none.
    ///
    /// # Errors
    ///
    /// As [`pool`](Self::pool).
    pub fn pool_of(&self, spec: &ImageSpec) -> Result<Pool> {
        match spec.pool() {
            Some(pool) => Pool::of(self, pool, spec.namespace()),
            None => Pool::of(self, &self.default_pool()?, None),
        }
    }

    pub(crate) fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        object: &dyn Display,
        work: impl FnOnce(&RadosHandle) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T> {
        let rados = Arc::clone(&self.connection.rados);
        self.connection.call(operation, object, self.deadline, move || work(&rados))
    }
}
