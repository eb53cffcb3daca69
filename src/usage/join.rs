//! From what was found out to who uses an image: nothing here asks anybody.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use super::client::{Access, Client, Mapping, Place, State};
use crate::address::EntityAddress;
use crate::krbd::Device;
use crate::lock::Locker;
use crate::rados::{BlocklistEntry, NotifyReply};
use crate::watcher::{Watcher, WatcherKind, parse_client_id};

/// What was found out about one image.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) watchers: Vec<Watcher>,
    pub(super) lockers: Vec<Locker>,
    /// The mappings of this image, and no others.
    pub(super) devices: Vec<Device>,
    /// Who answered, where that was asked.
    pub(super) answers: Option<NotifyReply>,
}

/// What is known beside it, and the same for all images.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The asking connection's own id.
    pub(super) this_program: Option<u64>,
    /// The addresses of this host.
    pub(super) host: HashSet<IpAddr>,
    /// The nodes that the caller has named, by their addresses.
    pub(super) nodes: BTreeMap<IpAddr, String>,
    /// The clients that mirror daemons are.
    pub(super) mirror_daemons: HashSet<u64>,
    pub(super) blocklist: Vec<BlocklistEntry>,
}

/// The id and the address of a client, as far as a source has them.
#[derive(Clone, Copy)]
struct Identity {
    id: Option<u64>,
    address: Option<EntityAddress>,
}

impl Identity {
    /// Ids are unique in a cluster. Addresses nearly are: clients behind one address may have the same nonce, so the
    /// address alone counts only where one of the two has no id.
    fn is(self, client: &Client) -> bool {
        let same_address = self.address.zip(client.address).map(|(a, b)| a.same_endpoint(&b));
        match self.id.zip(client.id) {
            Some((a, b)) => a == b && same_address != Some(false),
            None => same_address == Some(true),
        }
    }
}

/// The clients that use the image: those that watch it first, in the order of the list of watchers.
pub(super) fn join(found: Found, known: &Known) -> Vec<Client> {
    let mut clients: Vec<Client> = Vec::new();
    for watcher in found.watchers {
        let client = of(&mut clients, Identity { id: Some(watcher.client), address: Some(watcher.address) });
        client.watches.push(watcher);
    }
    for locker in found.lockers {
        let id = parse_client_id(&locker.client).ok();
        of(&mut clients, Identity { id, address: Some(locker.address) }).locks.push(locker);
    }
    for device in found.devices {
        let identity = Identity { id: device.client_id, address: device.client_address };
        of(&mut clients, identity).mappings.push(Mapping::new(device));
    }
    for client in &mut clients {
        judge(client, known, found.answers.as_ref());
    }
    clients
}

fn of(clients: &mut Vec<Client>, identity: Identity) -> &mut Client {
    let known = clients.iter().position(|client| identity.is(client));
    let place = known.unwrap_or_else(|| {
        clients.push(Client {
            id: identity.id,
            address: identity.address.map(EntityAddress::without_protocol),
            place: Place::Elsewhere,
            kind: WatcherKind::Unknown,
            access: Access::ReadOnly,
            state: State::Unknown,
            watches: Vec::new(),
            locks: Vec::new(),
            mappings: Vec::new(),
            blocklisted: Vec::new(),
            mirror_daemon: false,
        });
        clients.len() - 1
    });
    &mut clients[place]
}

fn judge(client: &mut Client, known: &Known, answers: Option<&NotifyReply>) {
    let ip = client.address.map(|address| address.ip());
    client.place = if client.id.is_some() && client.id == known.this_program {
        Place::ThisProgram
    } else if !client.mappings.is_empty() || ip.is_some_and(|ip| known.host.contains(&ip)) {
        Place::ThisHost
    } else if let Some(name) = ip.and_then(|ip| known.nodes.get(&ip)) {
        Place::Node { name: name.clone() }
    } else if known.nodes.is_empty() {
        Place::Elsewhere
    } else {
        Place::Unlisted
    };
    client.kind = kind(client);
    let only_reads = client.watches.is_empty()
        && client.locks.is_empty()
        && client.mappings.iter().all(|mapping| !mapping.is_writable());
    client.access = if only_reads { Access::ReadOnly } else { Access::ReadWrite };
    client.state = answers.map_or(State::Unknown, |answers| state(client, answers));
    client.mirror_daemon = client.id.is_some_and(|id| known.mirror_daemons.contains(&id));
    let hits = |entry: &&BlocklistEntry| client.address.is_some_and(|address| entry.hits(&address));
    client.blocklisted = known.blocklist.iter().filter(hits).cloned().collect();
}

/// By its mappings, its watches' cookies, or the cookie in the name of a lock that a watcher has taken.
fn kind(client: &Client) -> WatcherKind {
    if !client.mappings.is_empty() {
        return WatcherKind::Kernel;
    }
    let by_lock = client.locks.iter().filter_map(|lock| Some(Watcher::new(lock.address, 0, lock.watch_cookie()?)));
    let mut kinds = client.watches.iter().copied().chain(by_lock).map(|watch| watch.kind());
    kinds.find(|kind| *kind != WatcherKind::Unknown).unwrap_or(WatcherKind::Unknown)
}

/// One answer proves that it lives; a watch that came or went between list and notify proves nothing.
fn state(client: &Client, answers: &NotifyReply) -> State {
    let mut watches = client.watches.iter();
    if answers.acknowledged.iter().any(|answer| Some(answer.watch.client) == client.id) {
        State::Alive
    } else if watches.any(|watch| answers.silent.iter().any(|silent| silent.is_of(watch))) {
        State::Silent
    } else {
        State::Unknown
    }
}
