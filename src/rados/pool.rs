//! A pool and a namespace in it, and the objects there.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::cluster::Cluster;
use super::connection::{Connection, Failure};
use super::timer::Limit;
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::ffi::Errno;
use crate::ffi::io::IoHandle;
use crate::name::{NameError, NamespaceName, PoolName};
use crate::text::quoted;

/// A pool, and one namespace in it. It cannot be changed once it is made: another namespace is another handle
/// ([`Pool::in_namespace`]).
///
/// What every call may fail with is said [in the module](crate::rados#errors).
#[derive(Debug, Clone)]
pub struct Pool {
    pub(crate) connection: Arc<Connection>,
    pub(crate) io: Arc<IoHandle>,
    pub(crate) deadline: Option<Duration>,
    name: PoolName,
    id: i64,
    namespace: Option<NamespaceName>,
}

/// Size and time of the last change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ObjectStat {
    /// In bytes.
    pub size: u64,
    /// To the second.
    pub modified: SystemTime,
}

/// Some keys of an object's omap with their values, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OmapPage {
    /// Keys and values.
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether there are more keys after these.
    pub more: bool,
}

impl Pool {
    pub(super) fn of(cluster: &Cluster, name: &PoolName, namespace: Option<&NamespaceName>) -> Result<Self> {
        let (rados, wanted, space) = (Arc::clone(&cluster.connection.rados), name.clone(), namespace.cloned());
        let open = move || {
            let id = rados.pool_id(wanted.as_str())?;
            let io = IoHandle::create(&rados, id, space.as_ref().map(NamespaceName::as_str))?;
            Ok((id, io))
        };
        let (id, io) = cluster.connection.call("open pool", name, cluster.deadline, open)?;
        Ok(Self {
            connection: Arc::clone(&cluster.connection),
            io: Arc::new(io),
            deadline: cluster.deadline,
            name: name.clone(),
            id,
            namespace: namespace.cloned(),
        })
    }

    /// The same pool, another namespace; `None` is the default one. The namespace need not exist.
    ///
    /// # Errors
    ///
    /// As [`Cluster::pool`].
    pub fn in_namespace(&self, namespace: Option<&NamespaceName>) -> Result<Self> {
        Self::of(&self.cluster(), &self.name, namespace)
    }

    /// The connection of this pool.
    pub fn cluster(&self) -> Cluster {
        Cluster { connection: Arc::clone(&self.connection), deadline: self.deadline }
    }

    /// The same pool with another deadline for each call, that of handles made from it too.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self.clone() }
    }

    /// The same pool, with calls that may wait for ever.
    #[must_use]
    pub fn without_deadline(&self) -> Self {
        Self { deadline: None, ..self.clone() }
    }

    /// The same pool for what is left of a call with several steps.
    pub(crate) fn until(&self, deadline: Deadline) -> Self {
        Self { deadline: deadline.left(), ..self.clone() }
    }

    /// The pool's name at the time it was opened.
    pub fn name(&self) -> &PoolName {
        &self.name
    }

    /// The pool's id, which stays the same when it is renamed.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The namespace; `None` is the default one.
    pub fn namespace(&self) -> Option<&NamespaceName> {
        self.namespace.as_ref()
    }

    /// Size and time of the last change of an object.
    ///
    /// # Errors
    ///
    /// `NotFound`, and as [every call](crate::rados#errors); `InvalidName` for an object name that is empty, has a NUL
    /// or is longer than 2048 bytes.
    #[doc(alias = "rados_stat")]
    pub fn stat(&self, object: impl AsRef<str>) -> Result<ObjectStat> {
        let stat = self.ask("stat object", object.as_ref(), |io, object, limit| {
            Ok(io.stat(object, |operation| limit.bind(operation))?)
        })?;
        let modified = u64::try_from(stat.modified).unwrap_or(0);
        Ok(ObjectStat { size: stat.size, modified: SystemTime::UNIX_EPOCH + Duration::from_secs(modified) })
    }

    /// Up to `length` bytes of an object from `offset` (in bytes); fewer where it ends.
    ///
    /// # Errors
    ///
    /// As [`stat`](Self::stat); `InvalidInput` for a length of 2 GiB or more, which librados does not take, errno 12
    /// (ENOMEM, kind `Other`) for one that there is no memory for.
    #[doc(alias = "rados_read")]
    pub fn read(&self, object: impl AsRef<str>, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.ask("read object", object.as_ref(), move |io, object, limit| {
            Ok(io.read(object, offset, length, |operation| limit.bind(operation))?)
        })
    }

    /// Writes into an object at `offset` (in bytes); makes it if need be. A write that passes its deadline may still
    /// take effect.
    ///
    /// # Errors
    ///
    /// As [`stat`](Self::stat), but a missing object is none.
    #[doc(alias = "rados_write")]
    pub fn write(&self, object: impl AsRef<str>, offset: u64, data: &[u8]) -> Result<()> {
        let data = data.to_vec();
        self.object("write object", object.as_ref(), move |io, object| io.write(object, offset, &data))
    }

    /// Replaces an object's content; makes it if need be.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    #[doc(alias = "rados_write_full")]
    pub fn write_full(&self, object: impl AsRef<str>, data: &[u8]) -> Result<()> {
        let data = data.to_vec();
        self.object("write object", object.as_ref(), move |io, object| io.write_full(object, &data))
    }

    /// Removes an object.
    ///
    /// # Errors
    ///
    /// As [`stat`](Self::stat).
    #[doc(alias = "rados_remove")]
    pub fn remove(&self, object: impl AsRef<str>) -> Result<()> {
        self.object("remove object", object.as_ref(), |io, object| io.remove(object))
    }

    /// An extended attribute.
    ///
    /// # Errors
    ///
    /// As [`stat`](Self::stat); `InvalidName` for an attribute's name that is empty or has a NUL; errno 61 (ENODATA,
    /// kind `Other`) where the object is there and the attribute is not.
    #[doc(alias = "rados_getxattr")]
    pub fn xattr(&self, object: impl AsRef<str>, name: &str) -> Result<Vec<u8>> {
        let name = attribute_name(name)?;
        self.object("read attribute of object", object.as_ref(), move |io, object| io.xattr(object, &name))
    }

    /// Sets an extended attribute; makes the object if need be.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write); `InvalidName` for an attribute's name that is empty or has a NUL.
    #[doc(alias = "rados_setxattr")]
    pub fn set_xattr(&self, object: impl AsRef<str>, name: &str, value: &[u8]) -> Result<()> {
        let (name, value) = (attribute_name(name)?, value.to_vec());
        self.object("set attribute of object", object.as_ref(), move |io, object| io.set_xattr(object, &name, &value))
    }

    /// All extended attributes. Names are bytes: Ceph does not demand UTF-8.
    ///
    /// # Errors
    ///
    /// As [`stat`](Self::stat).
    #[doc(alias = "rados_getxattrs")]
    pub fn xattrs(&self, object: impl AsRef<str>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let pairs = self.object("list attributes of object", object.as_ref(), |io, object| io.xattrs(object))?;
        Ok(pairs.into_iter().collect())
    }

    /// Up to `limit` entries of an object's omap whose key comes after `after` (empty: from the first).
    ///
    /// # Errors
    ///
    /// `InvalidInput` where `after` has a NUL: C could not go on from there.
    #[doc(alias = "rados_read_op_omap_get_vals2")]
    pub fn omap(&self, object: impl AsRef<str>, after: &[u8], limit: u64) -> Result<OmapPage> {
        let after = after.to_vec();
        let read = move |io: &Arc<IoHandle>, object: &str| io.omap(object, &after, "", limit);
        let (entries, more) = self.object("read omap of object", object.as_ref(), read)?;
        Ok(OmapPage { entries: entries.into_iter().collect(), more })
    }

    /// Calls C for an object of this pool.
    pub(crate) fn object<T: Send + 'static, E: Into<Failure>>(
        &self,
        operation: &'static str,
        object: &str,
        work: impl FnOnce(&Arc<IoHandle>, &str) -> Result<T, E> + Send + 'static,
    ) -> Result<T> {
        check_object_name(operation, object)?;
        let (io, name) = (Arc::clone(&self.io), object.to_owned());
        self.connection.call_and_parse(operation, &format_args!("{self}/{object}"), self.deadline, move || {
            work(&io, &name).map_err(Into::into)
        })
    }

    /// [`Self::object`] for work that binds its operations to the limit, and so can be withdrawn.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        object: &str,
        work: impl FnOnce(&Arc<IoHandle>, &str, &Limit<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        check_object_name(operation, object)?;
        let (io, name) = (Arc::clone(&self.io), object.to_owned());
        self.connection
            .ask(operation, &format_args!("{self}/{object}"), self.deadline, move |limit| work(&io, &name, limit))
    }

    /// Calls C with this pool's deadline.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        object: &dyn Display,
        work: impl FnOnce() -> Result<T, Errno> + Send + 'static,
    ) -> Result<T> {
        self.connection.call(operation, object, self.deadline, work)
    }
}

/// `POOL` or `POOL/NAMESPACE`.
impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        self.namespace.iter().try_for_each(|namespace| write!(f, "/{namespace}"))
    }
}

/// The empty name is that of the OSD's own record of the object.
fn attribute_name(name: &str) -> Result<String> {
    let fault = match name {
        "" => NameError::Empty,
        name if name.contains('\0') => NameError::Contains('\0'),
        name => return Ok(name.to_owned()),
    };
    Err(Error::new(ErrorKind::InvalidName, "name attribute")
        .with_object(name.escape_debug())
        .with_details(Details::Name(fault)))
}

/// The OSD's limit (`osd_max_object_name_len`), in bytes.
const LONGEST_OBJECT_NAME: usize = 2048;

fn check_object_name(operation: &'static str, name: &str) -> Result<()> {
    let fault = match name {
        "" => NameError::Empty,
        name if name.contains('\0') => NameError::Contains('\0'),
        name if name.len() > LONGEST_OBJECT_NAME => {
            NameError::TooLong { length: name.len(), limit: LONGEST_OBJECT_NAME }
        }
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::InvalidName, operation).with_object(quoted(name)).with_details(Details::Name(fault)))
}
