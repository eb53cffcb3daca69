//! Asking: the thin layer that finds out what is joined.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use super::join::{Found, Known, join};
use super::{Client, Mapping, Part, Unseen, Usage, host, mirror};
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::holder::Holders;
use crate::image::{Image, ImageInfo};
use crate::krbd::{Device, Krbd};
use crate::name::{HeaderObject, ImageId, ImageSpec};
use crate::rados::watcher::look_until_none;
use crate::rados::{Cluster, NotifyReply, Pool};
use crate::watcher::Watcher;

/// How to find out who uses an image: what is asked, and what is known beforehand.
///
/// The connection's deadline is that of all questions together.
#[derive(Debug, Clone)]
#[must_use]
pub struct Survey {
    pub(super) cluster: Cluster,
    pub(super) krbd: Krbd,
    nodes: BTreeMap<IpAddr, String>,
    ask: Option<Duration>,
    holders: bool,
}

/// A message of librbd's (`NotifyMessage`, version 1) with an operation that it does not have and never will: it takes
/// this number for "unknown". So a client acknowledges it and does nothing else, without I/O: librbd's ImageWatcher,
/// and the kernel since 4.9 (`rbd_watch_cb`). Older kernels take any message for news of the header and read it again.
/// An empty one would make all clients do that.
const ARE_YOU_THERE: [u8; 10] = [1, 1, 4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];

impl Survey {
    /// Asks the cluster, and `/proc` and `/sys` of this host.
    pub fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), krbd: Krbd::new(), nodes: BTreeMap::new(), ask: None, holders: true }
    }

    /// The driver of this host, where `/proc` and `/sys` are elsewhere. Its directories serve for holders and for the
    /// host's addresses too.
    pub fn krbd(self, krbd: &Krbd) -> Self {
        Self { krbd: krbd.clone(), ..self }
    }

    /// The nodes whose clients are expected, by address. A client at none of them is
    /// [`Place::Unlisted`](super::Place::Unlisted).
    pub fn nodes(self, nodes: impl IntoIterator<Item = (IpAddr, String)>) -> Self {
        Self { nodes: nodes.into_iter().collect(), ..self }
    }

    /// Asks everybody who watches the image for a sign of life, and waits until all have answered or `timeout` has
    /// passed (whole seconds; more is rounded up). Without it every client's [`State`](super::State) is unknown.
    ///
    /// Clients do nothing but answer. It takes a user who may read the image. The wait counts against the connection's
    /// deadline.
    pub fn ask_watchers(self, timeout: Duration) -> Self {
        Self { ask: Some(timeout), ..self }
    }

    /// Leaves out who keeps mapped devices busy, which takes longer than everything else.
    pub fn without_holders(self) -> Self {
        Self { holders: false, ..self }
    }

    /// The same questions to another handle of the connection.
    pub(super) fn with_cluster(&self, cluster: Cluster) -> Self {
        Self { cluster, ..self.clone() }
    }

    /// Who uses an image. A snapshot in the spec is ignored: mappings of every snapshot are listed.
    ///
    /// # Errors
    ///
    /// Where the image cannot be opened, or its watchers not be listed. What else cannot be found out is no error, but
    /// among [`Usage::unseen`].
    pub fn of(&self, spec: &ImageSpec) -> Result<Usage> {
        let deadline = Deadline::after(self.cluster.deadline);
        let pool = self.cluster.pool_of(spec)?;
        let image = pool.until(deadline).open_read_only(spec.image().clone())?;
        self.of_image(&pool, &image, deadline)
    }

    /// The same by the image's id, as for one that is in the trash.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub fn of_id(&self, pool: &Pool, id: &ImageId) -> Result<Usage> {
        let deadline = Deadline::after(self.cluster.deadline);
        let image = pool.until(deadline).open_read_only_by_id(id)?;
        self.of_image(pool, &image, deadline)
    }

    fn of_image(&self, pool: &Pool, image: &Image, deadline: Deadline) -> Result<Usage> {
        let info = image.until(deadline).info()?;
        let watchers = watchers(image, info.header_object(), deadline)?;
        let mut unseen = Vec::new();
        let known = self.known(deadline, info.mirroring.is_some() && !watchers.is_empty(), &mut unseen);
        let answers = self.answers(&pool.until(deadline), info.header_object(), &watchers);
        let found = Found {
            lockers: seen(image.until(deadline).lockers(), Part::Locks, &mut unseen),
            devices: seen(self.devices(pool, &info), Part::Mappings, &mut unseen),
            answers: seen(answers, Part::Answers, &mut unseen),
            watchers,
        };
        let mut clients = join(found, &known);
        if self.holders {
            let mappings = clients.iter_mut().flat_map(|client| &mut client.mappings);
            mappings.for_each(|mapping| self.look_for_holders(mapping, deadline, &mut unseen));
        }
        Ok(Usage { pool: pool.name().clone(), namespace: pool.namespace().cloned(), image: info, clients, unseen })
    }

    /// Waits until nobody uses the image but those whom `exclude` picks: nobody watches it, it is not mapped here, and
    /// nobody holds its lock. A lock whose holder died does not go by itself: [`Fence`](super::Fence) breaks it.
    ///
    /// # Errors
    ///
    /// `TimedOut` when `deadline` has passed; [`Details::Clients`] says who is left. What else keeps it from being
    /// known.
    pub fn wait_until_unused(
        &self,
        spec: &ImageSpec,
        exclude: impl Fn(&Client) -> bool,
        deadline: Duration,
    ) -> Result<()> {
        let deadline = Deadline::after(Some(deadline));
        let pool = self.cluster.until(deadline).pool_of(spec)?;
        let image = pool.open_read_only(spec.image().clone())?;
        let info = image.until(deadline).info()?;
        let known = self.known(deadline, info.mirroring.is_some(), &mut Vec::new());
        let left = look_until_none(deadline, exclude, || self.users(&image, &info, &known, deadline))?;
        if left.is_empty() {
            return Ok(());
        }
        let error = Error::new(ErrorKind::TimedOut, "wait until nobody uses image").with_object(spec);
        Err(error.with_details(Details::Clients(left)))
    }

    fn users(&self, image: &Image, info: &ImageInfo, known: &Known, deadline: Deadline) -> Result<Vec<Client>> {
        let found = Found {
            watchers: watchers(image, info.header_object(), deadline)?,
            lockers: image.until(deadline).lockers()?,
            devices: self.devices(image.pool(), info)?,
            answers: None,
        };
        Ok(join(found, known))
    }

    /// What is the same for all images. Mirror daemons have no business with those that are not mirrored.
    pub(super) fn known(&self, deadline: Deadline, mirrored: bool, unseen: &mut Vec<Unseen>) -> Known {
        let cluster = self.cluster.until(deadline);
        let mirror_daemons = match mirrored {
            true => {
                // A cluster that never had a manager does not answer.
                let cluster = cluster.with_deadline(deadline.left().map_or(SEARCH, |left| left.min(SEARCH)));
                seen(mirror::daemons(&cluster), Part::MirrorDaemons, unseen)
            }
            false => Default::default(),
        };
        Known {
            this_program: Some(cluster.instance_id()),
            host: self.host(&cluster, unseen),
            nodes: self.nodes.clone(),
            mirror_daemons,
            blocklist: seen(cluster.blocklist(), Part::Blocklist, unseen),
        }
    }

    /// A loopback address is that of the cluster's own host: it means this one only where this connection has it too.
    fn host(&self, cluster: &Cluster, unseen: &mut Vec<Unseen>) -> HashSet<IpAddr> {
        let own = cluster.addresses().unwrap_or_default();
        let mut host = seen(host::addresses(self.krbd.roots().0), Part::HostAddresses, unseen);
        host.retain(|ip| !ip.is_loopback() || own.iter().any(|address| address.ip() == *ip));
        host
    }

    /// This host's mappings of the cluster.
    pub(super) fn all_devices(&self) -> Result<Vec<Device>> {
        let mut devices = match self.krbd.list() {
            // Nothing can be mapped then.
            Err(error) if error.kind() == ErrorKind::ModuleNotLoaded => return Ok(Vec::new()),
            devices => devices?,
        };
        let fsid = self.cluster.fsid()?;
        // Before Linux 4.9 a mapping does not say of which cluster it is.
        devices.retain(|device| device.fsid.is_none_or(|its| its == fsid));
        Ok(devices)
    }

    fn devices(&self, pool: &Pool, info: &ImageInfo) -> Result<Vec<Device>> {
        let mut devices = self.all_devices()?;
        devices.retain(|device| in_pool(device, pool) && is_of(device, info.id.as_ref(), info.name.as_bytes()));
        Ok(devices)
    }

    fn answers(&self, pool: &Pool, header: &HeaderObject, watchers: &[Watcher]) -> Result<Option<NotifyReply>> {
        let Some(timeout) = self.ask.filter(|_| !watchers.is_empty()) else { return Ok(None) };
        pool.notify(header, &ARE_YOU_THERE, timeout).map(Some)
    }

    fn look_for_holders(&self, mapping: &mut Mapping, deadline: Deadline, unseen: &mut Vec<Unseen>) {
        let (proc, sys) = self.krbd.roots();
        let search = Holders::of(mapping.device.number).root(proc, sys);
        let search = search.deadline(deadline.left().map_or(SEARCH, |left| left.min(SEARCH)));
        mapping.holders = seen(search.run().map(Some), Part::Holders, unseen);
    }
}

/// How long a part may take that is not sure to end: the search for holders of one device, and that for mirror daemons.
const SEARCH: Duration = Duration::from_secs(5);

/// Whether a mapping is of an image in this pool and namespace.
pub(super) fn in_pool(device: &Device, pool: &Pool) -> bool {
    let same_pool = match device.pool_id {
        Some(id) => i64::try_from(id) == Ok(pool.id()),
        None => device.pool.to_str() == Some(pool.name().as_str()),
    };
    let namespace = device.namespace.as_ref().map(|namespace| namespace.as_bytes());
    same_pool && namespace == pool.namespace().map(|namespace| namespace.as_str().as_bytes())
}

/// Whether a mapping of the pool is of this image: by the id, which outlives a rename. Format 1 has none.
pub(super) fn is_of(device: &Device, id: Option<&ImageId>, name: &[u8]) -> bool {
    device.image_id.as_ref() == id && (id.is_some() || device.image.as_bytes() == name)
}

/// The part that was found out; one that was not is nothing, and the reason is among what was not seen.
pub(super) fn seen<T: Default, E: std::fmt::Display>(found: Result<T, E>, part: Part, unseen: &mut Vec<Unseen>) -> T {
    found.unwrap_or_else(|error| {
        unseen.push(Unseen { part, reason: error.to_string() });
        T::default()
    })
}

/// Who watches an image; with their time-outs where that can be asked.
#[cfg(feature = "list-watchers")]
pub(super) fn watchers(image: &Image, header: &HeaderObject, deadline: Deadline) -> Result<Vec<Watcher>> {
    image.pool().until(deadline).list_watchers(header)
}

#[cfg(not(feature = "list-watchers"))]
pub(super) fn watchers(image: &Image, _: &HeaderObject, deadline: Deadline) -> Result<Vec<Watcher>> {
    image.until(deadline).watchers()
}
