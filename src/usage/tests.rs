//! The join, and its text, on written values.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;

use super::join::{Found, Known, join};
use super::*;
use crate::address::EntityAddress;
use crate::krbd::Device;
use crate::lock::Locker;
use crate::rados::{Acknowledgement, BlocklistEntry, NotifyReply, Watch};
use crate::watcher::{Watcher, WatcherKind};

const KERNEL_COOKIE: u64 = 0xffff_0000_0000_0009;
const PROGRAM_COOKIE: u64 = 94_218_406_331_904;

fn address(text: &str) -> EntityAddress {
    text.parse().unwrap()
}

fn watcher(at: &str, client: u64, cookie: u64) -> Watcher {
    let mut watcher = Watcher::new(address(at), client, cookie);
    watcher.timeout = Some(Duration::from_secs(30));
    watcher
}

/// A mapping that the kernel client `client.ID` made.
fn device(id: u32, at: &str, client: u64) -> Device {
    Device {
        id,
        node: format!("/dev/rbd{id}").into(),
        number: crate::DeviceNumber::new(252, id * 16),
        pool: "kube".into(),
        pool_id: Some(2),
        namespace: None,
        image: "pvc-1".into(),
        image_id: Some("fb236b8b4567".parse().unwrap()),
        snapshot: None,
        snapshot_id: Some(Device::NO_SNAPSHOT),
        fsid: None,
        client_address: Some(address(at)),
        client_id: Some(client),
        size: 1 << 30,
        read_only: Some(false),
        features: None,
        config: None,
        parents: Vec::new(),
        disk_sequence: None,
    }
}

fn automatic_lock(client: u64, cookie: u64, at: &str) -> Locker {
    Locker::new(format!("client.{client}"), format!("auto {cookie}"), address(at))
}

fn entry(text: &str) -> BlocklistEntry {
    BlocklistEntry::new(address(text), "2026-11-30T21:00:00.000000+0000")
}

fn answers(alive: &[(u64, u64)], silent: &[(u64, u64)]) -> Option<NotifyReply> {
    let watch = |&(client, cookie): &(u64, u64)| Watch { client, cookie };
    let acknowledged = alive.iter().map(|whose| Acknowledgement { watch: watch(whose), payload: Vec::new() }).collect();
    Some(NotifyReply { acknowledged, silent: silent.iter().map(watch).collect() })
}

/// Case B01: the watch belongs to a kernel client whose address nobody knows, and the mapping is on this host.
#[test]
fn a_watcher_is_a_mapping_of_this_host_by_client_address_and_id() {
    let at = "192.0.2.10:0/2359070641";
    let found = Found {
        watchers: vec![
            watcher(at, 35594571, KERNEL_COOKIE),
            // The same address, another client.
            watcher("192.0.2.10:0/77", 35594572, PROGRAM_COOKIE),
        ],
        devices: vec![device(4, at, 35594571)],
        ..Found::default()
    };
    let clients = join(found, &Known::default());
    assert_eq!(clients.len(), 2);
    assert_eq!((&clients[0].place, clients[0].kind), (&Place::ThisHost, WatcherKind::Kernel));
    assert_eq!(clients[0].mappings[0].device.id, 4);
    assert!(!clients[0].has_lost_its_watch());
    assert_eq!((&clients[1].place, clients[1].kind), (&Place::Elsewhere, WatcherKind::UserSpace));
    assert!(clients[1].mappings.is_empty());
    assert!(clients.iter().all(|client| client.state == State::Unknown && client.access == Access::ReadWrite));
}

#[test]
fn clients_with_one_address_and_nonce_stay_two_and_a_mapping_goes_to_its_own() {
    let at = "192.0.2.10:0/1";
    let found = Found {
        watchers: vec![watcher(at, 1, KERNEL_COOKIE), watcher(at, 2, KERNEL_COOKIE)],
        devices: vec![device(0, at, 2)],
        ..Found::default()
    };
    let clients = join(found, &Known::default());
    assert_eq!(clients.iter().map(|client| client.mappings.len()).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn two_watches_of_one_client_are_one_user() {
    let at = "[2001:db8::1]:0/3012034728";
    let found = Found {
        watchers: vec![watcher(at, 4235, PROGRAM_COOKIE), watcher(at, 4235, PROGRAM_COOKIE + 64)],
        // Another spelling of the same address.
        lockers: vec![automatic_lock(4235, PROGRAM_COOKIE, "[2001:db8:0:0::1]:0/3012034728")],
        ..Found::default()
    };
    let clients = join(found, &Known::default());
    assert_eq!(clients.len(), 1);
    assert_eq!((clients[0].watches.len(), clients[0].locks.len()), (2, 1));
    assert!(!clients[0].has_lost_its_watch());
}

#[test]
fn where_a_client_is_follows_from_what_is_known_of_addresses() {
    let places = |known: &Known| {
        let watchers =
            vec![watcher("192.0.2.1:0/1", 1, 1), watcher("192.0.2.2:0/1", 2, 1), watcher("[2001:db8::3]:0/1", 3, 1)];
        let clients = join(Found { watchers, ..Found::default() }, known);
        clients.iter().map(|client| client.place.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(places(&Known::default()), ["another host"; 3]);
    let known = Known {
        this_program: Some(1),
        host: HashSet::from(["192.0.2.2".parse().unwrap(), "192.0.2.1".parse().unwrap()]),
        nodes: BTreeMap::from([("192.0.2.9".parse().unwrap(), "node-9".into())]),
        ..Known::default()
    };
    assert_eq!(places(&known), ["this program", "this host", "none of the nodes"]);
    let nodes = BTreeMap::from([("2001:db8:0::3".parse().unwrap(), "node-3".into())]);
    assert_eq!(places(&Known { nodes, ..Known::default() })[1..], ["none of the nodes", "node-3"]);
}

#[test]
fn readers_without_a_watch_have_not_lost_one() {
    let at = "192.0.2.10:0/7";
    let snapshot = Device { snapshot: Some("before".into()), ..device(1, at, 7) };
    let read_only = Device { read_only: Some(true), ..device(2, at, 7) };
    let found = Found { devices: vec![snapshot, read_only], ..Found::default() };
    let clients = join(found, &Known::default());
    assert_eq!((clients.len(), clients[0].access), (1, Access::ReadOnly));
    assert!(!clients[0].has_lost_its_watch());
}

/// A blocklisted kernel client keeps mapping and lock, while its watch is gone.
#[test]
fn a_mapping_whose_watch_is_lost_says_so_and_who_refuses_it() {
    let at = "192.0.2.10:0/7";
    let found = Found {
        devices: vec![device(1, at, 7)],
        lockers: vec![automatic_lock(7, KERNEL_COOKIE, at)],
        ..Found::default()
    };
    let known =
        Known { blocklist: vec![entry(at), entry("192.0.2.10:0/0"), entry("192.0.2.11:0/7")], ..Known::default() };
    let clients = join(found, &known);
    let [client] = clients.as_slice() else { panic!("{clients:?}") };
    assert!(client.has_lost_its_watch() && client.is_gone_with_lock() && client.is_blocklisted());
    assert_eq!(client.blocklisted, [entry(at), entry("192.0.2.10:0/0")]);

    // Where it is not known which client a mapping is, its watch may be anybody's.
    let unknown = Device { client_address: None, client_id: None, ..device(1, at, 7) };
    let found = Found {
        watchers: vec![watcher(at, 7, KERNEL_COOKIE)],
        devices: vec![unknown.clone(), unknown],
        ..Found::default()
    };
    let clients = join(found, &Known::default());
    assert!(clients.len() == 3 && clients.iter().all(|client| !client.has_lost_its_watch()), "{clients:?}");

    // Of two mappings of one client, one can lose its watch.
    let found = Found {
        watchers: vec![watcher(at, 7, KERNEL_COOKIE)],
        devices: vec![device(1, at, 7), device(2, at, 7)],
        ..Found::default()
    };
    let clients = join(found, &Known::default());
    assert!(clients[0].has_lost_its_watch() && !clients[0].is_gone_with_lock());
}

/// Case B10.
#[test]
fn an_owner_that_watches_no_more_is_a_client_with_a_lock_alone() {
    let found = Found {
        watchers: vec![watcher("192.0.2.22:0/1", 4490, PROGRAM_COOKIE)],
        lockers: vec![
            automatic_lock(4485, KERNEL_COOKIE, "192.0.2.21:0/3029"),
            Locker::new("client.4490", "by hand", address("192.0.2.22:0/1")),
        ],
        ..Found::default()
    };
    let clients = join(found, &Known::default());
    assert_eq!(clients.len(), 2);
    assert!(!clients[0].is_gone_with_lock());
    assert!(clients[1].is_gone_with_lock());
    assert_eq!((clients[1].kind, clients[1].access), (WatcherKind::Kernel, Access::ReadWrite));
}

#[test]
fn who_answered_is_alive_who_did_not_is_silent_and_who_was_not_asked_unknown() {
    let found = Found {
        watchers: vec![
            watcher("192.0.2.1:0/1", 1, 10),
            watcher("192.0.2.1:0/1", 1, 11),
            watcher("192.0.2.2:0/1", 2, 10),
            // It came after the notify.
            watcher("192.0.2.3:0/1", 3, 10),
        ],
        answers: answers(&[(1, 11)], &[(1, 10), (2, 10)]),
        ..Found::default()
    };
    let states: Vec<_> = join(found, &Known::default()).iter().map(|client| client.state).collect();
    assert_eq!(states, [State::Alive, State::Silent, State::Unknown]);
}

/// Case B05: the image itself and two mirror daemons do not count, whatever their number.
#[test]
fn this_program_and_mirror_daemons_can_be_told_from_the_others() {
    let watchers = [901, 777, 778, 1001].map(|client| watcher("192.0.2.1:0/1", client, KERNEL_COOKIE)).to_vec();
    let known = Known { this_program: Some(901), mirror_daemons: HashSet::from([777, 778]), ..Known::default() };
    let usage = usage(join(Found { watchers, ..Found::default() }, &known));
    assert_eq!(usage.clients.len(), 4);
    assert_eq!(usage.others().map(|client| client.id).collect::<Vec<_>>(), [Some(1001)]);
}

fn usage(clients: Vec<Client>) -> Usage {
    let header = crate::HeaderObject::of_id(&"fb236b8b4567".parse().unwrap());
    let image = ImageInfo {
        name: "pvc-1".into(),
        id: Some("fb236b8b4567".parse().unwrap()),
        header,
        size: 1 << 30,
        objects: 256,
        order: 22,
        object_size: 4 << 20,
        snapshot_count: 0,
        data_pool: None,
        block_name_prefix: "rbd_data.fb236b8b4567".parse().unwrap(),
        format: 2,
        features: crate::Features::empty(),
        operation_features: Default::default(),
        flags: Default::default(),
        group: None,
        created: None,
        accessed: None,
        modified: None,
        protected: None,
        snapshot_limit: None,
        parent: None,
        striping: None,
        journal: None,
        mirroring: None,
    };
    Usage { pool: "kube".parse().unwrap(), namespace: None, image, clients, unseen: Vec::new() }
}

#[test]
fn the_text_is_a_tree_that_says_what_is_the_matter() {
    let (here, there) = ("192.0.2.10:0/2359070641", "[2001:db8::1]:0/7");
    let found = Found {
        watchers: vec![watcher(there, 4242, PROGRAM_COOKIE)],
        lockers: vec![automatic_lock(4235, KERNEL_COOKIE, here)],
        devices: vec![device(4, here, 4235), Device { snapshot: Some("before".into()), ..device(5, here, 4235) }],
        answers: answers(&[], &[(4242, PROGRAM_COOKIE)]),
    };
    let known = Known {
        nodes: BTreeMap::from([("2001:db8::1".parse().unwrap(), "node-b".into())]),
        blocklist: vec![entry(here)],
        ..Known::default()
    };
    let mut usage = usage(join(found, &known));
    usage.unseen.push(Unseen { part: Part::MirrorDaemons, reason: "permission denied".into() });
    assert_eq!(
        usage.to_string(),
        "\
kube/pvc-1 (id fb236b8b4567) is used by 2 clients
├─ client.4242 at [2001:db8::1]:0/7
│     node-b, user space, read-write, silent: it does not answer
│     its watch ends 30 s after its last sign of life
└─ client.4235 at 192.0.2.10:0/2359070641
   │  this host, kernel, read-write
   │  it holds the lock, and watches the image no more
   │  blocklisted until 2026-11-30T21:00:00.000000+0000
   ├─ /dev/rbd4 (252:64)
   └─ /dev/rbd5 (252:80), snapshot before
not known
└─ which clients are mirror daemons: permission denied"
    );
    usage.clients.clear();
    usage.unseen.clear();
    assert_eq!(usage.to_string(), "kube/pvc-1 (id fb236b8b4567) is used by nobody that can be seen");
    usage.image.name = "pvc\n\u{1b}[2J".into();
    assert!(usage.to_string().starts_with("kube/pvc\\x0a\\x1b[2J (id"), "{usage}");
}

fn remedies(found: Found, known: &Known) -> Vec<String> {
    usage(join(found, known)).remedies().iter().map(ToString::to_string).collect()
}

#[test]
fn what_can_be_done_comes_in_the_order_of_safety() {
    let (here, silent, gone) = ("192.0.2.10:0/1", "192.0.2.11:0/1", "192.0.2.12:0/1");
    let found = Found {
        watchers: vec![
            watcher("192.0.2.13:0/1", 13, PROGRAM_COOKIE),
            watcher(silent, 11, KERNEL_COOKIE),
            watcher(here, 10, KERNEL_COOKIE),
        ],
        lockers: vec![
            automatic_lock(12, KERNEL_COOKIE, gone),
            Locker::new("client.14", "by hand", address("192.0.2.14:0/1")),
        ],
        devices: vec![device(4, here, 10)],
        answers: answers(&[(13, PROGRAM_COOKIE), (10, KERNEL_COOKIE)], &[(11, KERNEL_COOKIE)]),
    };
    assert_eq!(
        remedies(found, &Known::default()),
        [
            "unmap /dev/rbd4 (kube/pvc-1)",
            "wait until the watch of client.11 at 192.0.2.11:0/1 has expired, 30 s after its last sign of life",
            "for a person: close the image or unmap it at client.13 at 192.0.2.13:0/1, on another host",
            "for a person: break the lock \"by hand\" of client.14",
            "lossy: fence 192.0.2.11:0/1: what it has not written is lost, in all its images, 1 watch of this one",
            "lossy: fence 192.0.2.12:0/1: what it has not written is lost, in all its images",
        ]
    );
}

#[test]
fn the_lock_of_a_client_that_the_cluster_refuses_can_be_broken_safely() {
    let at = "192.0.2.12:0/1";
    let found = Found { lockers: vec![automatic_lock(12, KERNEL_COOKIE, at)], ..Found::default() };
    let known = Known { blocklist: vec![entry(at)], ..Known::default() };
    assert_eq!(remedies(found, &known), ["break the lock \"auto 18446462598732840969\" of client.12"]);
}

/// A frozen client of this host is waited for, and may be fenced; who was not asked may be alive or not.
#[test]
fn a_fence_names_the_devices_of_this_host_that_it_hits() {
    let at = "192.0.2.10:0/1";
    let found = |answers| Found {
        watchers: vec![watcher(at, 10, KERNEL_COOKIE)],
        devices: vec![device(4, at, 10)],
        answers,
        ..Found::default()
    };
    let silent = remedies(found(answers(&[], &[(10, KERNEL_COOKIE)])), &Known::default());
    let fence = "lossy: fence 192.0.2.10:0/1: what it has not written is lost, in all its images, 1 watch of this one, \
                 /dev/rbd4 (kube/pvc-1), on this host";
    assert_eq!((silent.len(), silent[2].as_str()), (3, fence));
    assert_eq!(remedies(found(None), &Known::default()), ["unmap /dev/rbd4 (kube/pvc-1)"]);
}

prop_compose! {
    fn any_address()(ip in 0_u8..4, nonce in 0_u32..4) -> EntityAddress {
        EntityAddress::new([192, 0, 2, ip].into(), 0, nonce)
    }
}

proptest! {
    /// Nothing is lost and nothing is counted twice, whatever belongs together.
    #[test]
    fn everything_found_is_in_one_client(
        watchers in prop::collection::vec((any_address(), 0_u64..4, 0_u64..4), 0..6),
        lockers in prop::collection::vec((any_address(), 0_u64..6), 0..4),
        devices in prop::collection::vec((any_address(), prop::option::of(0_u64..4)), 0..6),
    ) {
        let found = Found {
            watchers: watchers.iter().map(|&(at, client, cookie)| Watcher::new(at, client, cookie)).collect(),
            lockers: lockers.iter().map(|&(at, client)| Locker::new(format!("client.{client}"), "auto 1", at)).collect(),
            devices: devices.iter().enumerate().map(|(n, &(at, client_id))| {
                Device { client_address: Some(at), client_id, ..device(n as u32, "192.0.2.1:0/1", 0) }
            }).collect(),
            answers: None,
        };
        let clients = join(found, &Known::default());
        let count = |of: fn(&Client) -> usize| clients.iter().map(of).sum::<usize>();
        prop_assert_eq!(count(|client| client.watches.len()), watchers.len());
        prop_assert_eq!(count(|client| client.locks.len()), lockers.len());
        prop_assert_eq!(count(|client| client.mappings.len()), devices.len());
        for client in &clients {
            prop_assert!(client.watches.iter().all(|watch| Some(watch.client) == client.id));
        }
    }
}
