//! Fencing: the cluster refuses a client from now on, so that another can use the image in its place.

use std::fmt;
use std::time::Duration;

use super::survey::watchers;
use super::{Client, Place, State, Survey, Usage};
use crate::address::EntityAddress;
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::ffi::Errno;
use crate::ffi::lock::LOCK_OF_IMAGE;
use crate::image::Image;
use crate::krbd::Device;
use crate::lock::Locker;
use crate::name::{HeaderObject, ImageSpec};
use crate::rados::{Cluster, Pool};
use crate::watcher::Watcher;

const FENCE: &str = "fence client";
/// How often the list of watchers is looked at, until the client's watch is gone.
const POLL: Duration = Duration::from_millis(100);

/// Whom to fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suspect {
    /// The owner of a watch, as it was listed.
    Watcher(Watcher),
    /// The holder of a lock, as it was listed.
    Locker(Locker),
    /// A client by its address, whether it is seen or not: a node that is cut off and may come back.
    Address(EntityAddress),
}

impl From<Watcher> for Suspect {
    fn from(watcher: Watcher) -> Self {
        Self::Watcher(watcher)
    }
}

impl From<Locker> for Suspect {
    fn from(locker: Locker) -> Self {
        Self::Locker(locker)
    }
}

impl From<EntityAddress> for Suspect {
    fn from(address: EntityAddress) -> Self {
        Self::Address(address)
    }
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watcher(watcher) => write!(f, "{watcher}"),
            Self::Locker(locker) => write!(f, "{locker}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Evicts a client of an image: the cluster refuses it from now on, its lock on the image is broken, and its watch
/// goes.
///
/// What it had not written yet is lost, and so is its access to **everything** in the cluster: every image that this
/// client has open. A kernel client is shared by all mappings of a host that were made with equal options. It may go on
/// to believe that it has the image; none of its writes arrives, also when it comes back.
///
/// Everything is read again first, and nothing is done (see [`plan`](Self::plan)) to a client that
///
/// - acknowledges a notify, or could not be asked, unless [`even_if_alive`](Self::even_if_alive);
/// - is this program or on this host, unless [`even_if_local`](Self::even_if_local);
/// - is no longer the one that was meant.
///
/// It takes a user with `profile rbd`; [`unfence`] one who may do more (`mon 'allow rw'`).
#[derive(Debug, Clone)]
#[must_use]
pub struct Fence {
    survey: Survey,
    suspect: Suspect,
    expiry: Duration,
    even_if_alive: bool,
    even_if_local: bool,
}

/// What a fence does, and whom it hits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FencePlan {
    /// What goes on the blocklist: one client, by IP address and nonce.
    pub address: EntityAddress,
    /// For how long.
    #[cfg_attr(feature = "serde", serde(rename = "expiry_seconds", serialize_with = "seconds"))]
    pub expiry: Duration,
    /// The users of the image with this address, as they were just now; none where it is not seen.
    pub clients: Vec<Client>,
    /// The mappings of this host that lose their image, of whatever image: those of the same kernel client.
    pub devices: Vec<Device>,
    /// The images of the same pool and namespace that the client has open to write, this one included; `None` where
    /// that could not be found out in half of the time that was left, or without the feature `list-watchers`.
    pub images: Option<Vec<String>>,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[must_use]
pub struct Fenced {
    /// What was meant to be done.
    pub plan: FencePlan,
    /// The client's locks on the image that were broken.
    pub broken: Vec<Locker>,
    /// Its watches that were still listed when the deadline had passed. They do no harm to a new user; the image cannot
    /// be removed until they have expired.
    pub watches_left: Vec<Watcher>,
}

#[cfg(feature = "serde")]
fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_secs())
}

impl Fence {
    /// Of a client of some image on this cluster, for a day.
    pub fn new(cluster: &Cluster, suspect: impl Into<Suspect>) -> Self {
        let survey = Survey::new(cluster).ask_watchers(Duration::from_secs(5)).without_holders();
        let expiry = Duration::from_secs(24 * 60 * 60);
        Self { survey, suspect: suspect.into(), expiry, even_if_alive: false, even_if_local: false }
    }

    /// Looks as this survey says, which should [ask the watchers](Survey::ask_watchers): who was not asked counts as
    /// alive.
    pub fn survey(self, survey: Survey) -> Self {
        Self { survey, ..self }
    }

    /// How long the cluster refuses it. It should be longer than the client can possibly stay frozen or cut off: what
    /// it still wants to write when the entry has ended, it writes.
    pub fn expiry(self, expiry: Duration) -> Self {
        Self { expiry, ..self }
    }

    /// Also a client that is alive: it loses what it has not written yet.
    pub fn even_if_alive(self) -> Self {
        Self { even_if_alive: true, ..self }
    }

    /// Also this program's own connection, or a client on this host.
    pub fn even_if_local(self) -> Self {
        Self { even_if_local: true, ..self }
    }

    /// Looks who would be fenced, and whether that is allowed; changes nothing.
    ///
    /// # Errors
    ///
    /// - `Busy`: it is alive, could not be asked, or is local; [`Details::Watchers`] has its watches.
    /// - `Changed`: the watch is gone and its owner has no lock either, or the lock is no longer that one.
    /// - `InvalidInput`: an address without a nonce, which is that of a whole host.
    /// - What [`Survey::of`] says.
    pub fn plan(&self, spec: &ImageSpec) -> Result<FencePlan> {
        self.plan_until(spec, Deadline::after(self.survey.cluster.deadline)).map(|(_, plan)| plan)
    }

    /// Fences: looks as [`plan`](Self::plan) does, then puts the client on the blocklist, and waits until this
    /// connection has the map that says so; breaks its locks on the image; and waits until its watches are gone, which
    /// the OSD drops once it has that map. The connection's deadline is that of all of it.
    ///
    /// # Errors
    ///
    /// Those of [`plan`](Self::plan), with nothing done. Later errors say what failed; the client is on the blocklist
    /// then if the operation is not `add to blocklist`.
    pub fn run(&self, spec: &ImageSpec) -> Result<Fenced> {
        let deadline = Deadline::after(self.survey.cluster.deadline);
        let (usage, plan) = self.plan_until(spec, deadline)?;
        let cluster = self.survey.cluster.until(deadline);
        cluster.blocklist_add(&plan.address, self.expiry)?;
        let pool = cluster.pool_of(spec)?;
        let mut broken = Vec::new();
        for lock in plan.clients.iter().flat_map(|client| &client.locks) {
            if break_lock(&pool.until(deadline), &usage, lock)? {
                broken.push(lock.clone());
            }
        }
        let image = pool.until(deadline).open_read_only(spec.image().clone())?;
        let watches_left = wait_for_watches(&image, &plan, usage.image.header_object(), deadline)?;
        Ok(Fenced { plan, broken, watches_left })
    }

    fn plan_until(&self, spec: &ImageSpec, deadline: Deadline) -> Result<(Usage, FencePlan)> {
        let usage = self.survey.with_cluster(self.survey.cluster.until(deadline)).of(spec)?;
        let address = self.address_in(&usage)?;
        let hit = |client: &&Client| client.address.is_some_and(|its| its.same_endpoint(&address));
        let clients: Vec<Client> = usage.clients.iter().filter(hit).cloned().collect();
        clients.iter().try_for_each(|client| self.check(client))?;
        if self.survey.cluster.addresses()?.iter().any(|own| own.same_endpoint(&address)) && !self.even_if_local {
            return Err(self.refused(ErrorKind::Busy).with_hint("it is this program's own connection"));
        }
        let mut devices = self.survey.all_devices()?;
        devices.retain(|device| device.client_address.is_some_and(|its| its.same_endpoint(&address)));
        if let Some(device) = devices.first().filter(|_| !self.even_if_local) {
            return Err(self.refused(ErrorKind::Busy).with_hint(format!("it is {device} of this host: unmap that")));
        }
        // The other half is for the fence itself.
        let half = Deadline::after(deadline.left().map(|left| left / 2));
        let images = images_of(&self.survey.cluster.until(half).pool_of(spec)?, &address).unwrap_or_default();
        Ok((usage, FencePlan { address, expiry: self.expiry, clients, devices, images }))
    }

    /// The address of the suspect, if it is still there.
    fn address_in(&self, usage: &Usage) -> Result<EntityAddress> {
        let changed =
            || self.refused(ErrorKind::Changed).with_hint("it is not the one that was meant any more: look again");
        let address = match &self.suspect {
            Suspect::Address(address) => *address,
            Suspect::Watcher(watcher) => {
                let same = |client: &&Client| client.id == Some(watcher.client);
                let client = usage.clients.iter().find(same).ok_or_else(changed)?;
                let watches = client.watches.iter().any(|watch| watch.cookie == watcher.cookie);
                let gone = client.watches.is_empty() && client.is_gone_with_lock();
                if !(watches || gone) || client.address.is_none_or(|its| !its.same_endpoint(&watcher.address)) {
                    return Err(changed());
                }
                watcher.address
            }
            Suspect::Locker(locker) => {
                let locks = usage.clients.iter().flat_map(|client| &client.locks);
                locks.into_iter().find(|lock| *lock == locker).ok_or_else(changed)?.address
            }
        };
        if address.nonce() == 0 || address.ip().is_unspecified() {
            let error = self.refused(ErrorKind::InvalidInput);
            return Err(error.with_hint("without a nonce it would be every client of that IP address"));
        }
        Ok(address.without_protocol())
    }

    fn check(&self, client: &Client) -> Result<()> {
        let hint = match (client.state, &client.place) {
            (_, Place::ThisProgram) if !self.even_if_local => "it is this program's own connection",
            (_, Place::ThisHost) if !self.even_if_local => "it is on this host: end it here",
            (State::Alive, _) if !self.even_if_alive => "it is alive: it has acknowledged a notify",
            (State::Unknown, _) if !self.even_if_alive && !client.watches.is_empty() => {
                "it watches the image, and whether it is alive is not known"
            }
            _ => return Ok(()),
        };
        let watches = Details::Watchers(client.watches.clone());
        Err(self.refused(ErrorKind::Busy).with_details(watches).with_hint(hint))
    }

    fn refused(&self, kind: ErrorKind) -> Error {
        Error::new(kind, FENCE).with_object(&self.suspect)
    }
}

/// Lets the cluster serve a client again: takes its address off the blocklist.
///
/// Its connections stay useless, and kernel mappings keep giving errors until they are unmapped. But a client that was
/// frozen or cut off **since before it was fenced** has not noticed yet: what it still wants to write, it writes,
/// beside whoever has the image now. So this is for a client that has ended, or whose host was restarted.
///
/// # Errors
///
/// `NotFound` where it is not on the blocklist.
pub fn unfence(cluster: &Cluster, address: &EntityAddress) -> Result<()> {
    cluster.blocklist_remove(address)
}

/// Whether it was broken: another client may have done that already.
fn break_lock(pool: &Pool, usage: &Usage, lock: &Locker) -> Result<bool> {
    let (client, cookie) = (lock.client.clone(), lock.cookie.clone());
    let header = usage.image.header_object().as_str();
    pool.object("break lock of image", header, move |io, header| {
        // Not librbd's: that would put the client on the blocklist once more, for another time.
        match io.break_lock(header, LOCK_OF_IMAGE, &client, &cookie) {
            Err(Errno::NOT_FOUND) => Ok(false),
            broken => broken.map(|()| true),
        }
    })
}

/// Those that are left when the deadline has passed.
fn wait_for_watches(
    image: &Image,
    plan: &FencePlan,
    header: &HeaderObject,
    deadline: Deadline,
) -> Result<Vec<Watcher>> {
    let mut left: Vec<Watcher> = plan.clients.iter().flat_map(|client| &client.watches).copied().collect();
    loop {
        if left.is_empty() || deadline.is_over() {
            return Ok(left);
        }
        let now = match watchers(image, header, deadline) {
            Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(left),
            now => now?,
        };
        left.retain(|watch| now.iter().any(|now| (now.client, now.cookie) == (watch.client, watch.cookie)));
        if !left.is_empty() {
            std::thread::sleep(POLL.min(deadline.left().unwrap_or(POLL)));
        }
    }
}

#[cfg(feature = "list-watchers")]
fn images_of(pool: &Pool, address: &EntityAddress) -> Result<Option<Vec<String>>> {
    let mut images = Vec::new();
    for scanned in pool.scan_watchers() {
        let scanned = scanned?;
        // One that was removed meanwhile has nobody.
        let watchers = scanned.watchers.unwrap_or_default();
        if watchers.iter().any(|watcher| watcher.address.same_endpoint(address)) {
            images.push(scanned.image.name.to_string());
        }
    }
    Ok(Some(images))
}

#[cfg(not(feature = "list-watchers"))]
fn images_of(_: &Pool, _: &EntityAddress) -> Result<Option<Vec<String>>> {
    Ok(None)
}

impl fmt::Display for FencePlan {
    /// What it does, and a line for each that it hits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is refused by the cluster for {} s", self.address, self.expiry.as_secs())?;
        for client in &self.clients {
            write!(f, "\nit is {client}, {}", client.place)?;
            match client.state {
                State::Unknown if client.watches.is_empty() => f.write_str(", which watches the image no more")?,
                state => write!(f, ", {state}")?,
            }
        }
        if self.clients.is_empty() {
            f.write_str("\nit does not use the image as far as can be seen")?;
        }
        for device in &self.devices {
            write!(f, "\n{device} on this host loses its image")?;
        }
        match &self.images {
            Some(images) if images.len() > 1 => {
                write!(f, "\nit has {} images of the pool open: {}", images.len(), images.join(", "))
            }
            Some(_) => Ok(()),
            None => f.write_str("\nwhich other images it has open is not known"),
        }
    }
}

impl fmt::Display for Fenced {
    /// The plan, and what was done beside the blocklist.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plan)?;
        for lock in &self.broken {
            write!(f, "\nits lock {:?} is broken", lock.cookie)?;
        }
        match self.watches_left.len() {
            0 if self.plan.clients.iter().all(|client| client.watches.is_empty()) => Ok(()),
            0 => f.write_str("\nit watches the image no more"),
            1 => f.write_str("\nits watch is still listed and will expire"),
            many => write!(f, "\n{many} of its watches are still listed and will expire"),
        }
    }
}
