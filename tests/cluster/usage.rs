//! Who uses an image: the cluster asked by real clients, and this host by a written `/sys`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rbd::image::ImageOptions;
use rbd::krbd::Krbd;
use rbd::rados::BlocklistEntry;
use rbd::usage::{Access, Client, ImageUsage, Place, State, Survey};
use rbd::{Cluster, Details, ErrorKind, Pool, Usage, WatcherKind};

use super::library::{OwnPool, connect, create_format_1, image};
use super::support::{PrivateCluster, TestCluster, poll_until, unique};

/// Only who is silent makes it wait so long.
const ASK: Duration = Duration::from_secs(5);

fn create(pool: &Pool, name: &str) {
    pool.create_image(&image(name), 8 << 20, &ImageOptions::new()).unwrap();
}

fn of(survey: &Survey, pool: &OwnPool, name: &str) -> Usage {
    survey.of(&pool.spec(name).parse().unwrap()).unwrap()
}

fn client(usage: &Usage, id: u64) -> &Client {
    usage.clients.iter().find(|client| client.id == Some(id)).unwrap_or_else(|| panic!("no client.{id}: {usage}"))
}

#[test]
fn watchers_and_locks_of_one_client_are_one_user_and_who_asks_is_told_from_others() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let holder = TestCluster::shared().lock_image(&pool.spec("image"));
    let _own = [pool.open("image").unwrap(), pool.open("image").unwrap()];
    let usage = of(&Survey::new(&pool.cluster()), &pool, "image");
    assert_eq!(usage.name(), pool.spec("image"));
    assert_eq!(usage.unseen, []);

    let own = client(&usage, pool.cluster().instance_id());
    assert_eq!((&own.place, own.watches.len(), own.locks.len()), (&Place::ThisProgram, 2, 0));
    let [other] = usage.others().collect::<Vec<_>>().try_into().unwrap();
    // Everything on the test cluster is on loopback.
    assert_eq!((&other.place, other.kind), (&Place::ThisHost, WatcherKind::UserSpace));
    assert_eq!((other.access, other.state), (Access::ReadWrite, State::Unknown));
    assert_eq!((other.watches.len(), other.locks.len(), other.has_lost_its_watch()), (1, 1, false));
    assert_eq!(other.watch_timeout(), Some(Duration::from_secs(30)));

    drop(holder);
    let usage = of(&Survey::new(&pool.cluster()), &pool, "image");
    assert_eq!(usage.others().count(), 0);
}

#[test]
fn an_image_that_nobody_uses_and_one_in_the_trash() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let usage = Usage::of(&pool.cluster(), &pool.spec("image").parse().unwrap()).unwrap();
    assert!(!usage.is_used() && usage.unseen.is_empty(), "{usage}");
    let id = usage.image.id.clone().unwrap();
    TestCluster::shared().rbd(["trash", "mv", &pool.spec("image")]);
    let missing = Usage::of(&pool.cluster(), &pool.spec("image").parse().unwrap()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let writer = pool.open_by_id(&id).unwrap();
    assert_eq!(Usage::of_id(&pool, &id).unwrap().clients.len(), 1);
    drop(writer);
}

#[test]
fn an_image_in_a_namespace_and_one_of_format_1() {
    let pool = OwnPool::new();
    TestCluster::shared().rbd(["namespace", "create", &pool.spec("tenant")]);
    let tenant = pool.in_namespace(Some(&"tenant".parse().unwrap())).unwrap();
    create(&tenant, "image");
    create_format_1(&pool, "old");
    let held = TestCluster::shared().hold_image(&pool.spec("tenant/image"));
    let opened = pool.open("old").unwrap();
    for name in ["tenant/image", "old"] {
        let usage = of(&Survey::new(&pool.cluster()).ask_watchers(ASK), &pool, name);
        assert_eq!((usage.name(), usage.clients.len()), (pool.spec(name), 1));
        assert_eq!((usage.clients[0].state, usage.unseen.len()), (State::Alive, 0), "{usage}");
    }
    drop((held, opened));
}

#[test]
fn who_answers_is_alive_and_a_frozen_client_is_silent() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let survey = Survey::new(&pool.cluster()).ask_watchers(ASK);
    let holder = TestCluster::shared().lock_image(&pool.spec("image"));
    let _watch = TestCluster::shared().hold_image(&pool.spec("image"));
    let own = pool.open("image").unwrap();
    let start = Instant::now();
    let usage = of(&survey, &pool, "image");
    assert!(start.elapsed() < ASK, "nobody was waited for: {:?}", start.elapsed());
    assert_eq!(usage.clients.len(), 3);
    assert!(usage.clients.iter().all(|client| client.state == State::Alive), "{usage}");

    let paused = holder.pause();
    let start = Instant::now();
    let usage = of(&survey, &pool, "image");
    assert!(start.elapsed() >= ASK, "{:?}", start.elapsed());
    let owner = usage.clients.iter().find(|client| !client.locks.is_empty()).unwrap();
    assert_eq!((owner.state, owner.has_lost_its_watch()), (State::Silent, false));
    assert_eq!(usage.clients.iter().filter(|client| client.state == State::Alive).count(), 2);
    assert!(usage.to_string().contains("silent: it does not answer"), "{usage}");
    drop(paused);
    assert!(poll_until(ASK * 3, || {
        let usage = of(&survey, &pool, "image");
        usage.clients.iter().all(|client| client.state == State::Alive).then_some(true)
    }));

    // The question has changed nothing: the lock is still its owner's, and handles go on.
    let usage = of(&survey, &pool, "image");
    assert_eq!(usage.clients.iter().filter(|client| !client.locks.is_empty()).count(), 1);
    assert_eq!(own.size().unwrap(), 8 << 20);
}

/// Whoever owns the lock says that it does not know the operation (-EOPNOTSUPP), the others say nothing.
#[test]
fn a_notify_tells_who_acknowledged_and_what() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let _holder = TestCluster::shared().lock_image(&pool.spec("image"));
    let own = pool.open("image").unwrap();
    let header = own.header_object().unwrap();
    let unknown = [1, 1, 4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    let reply = pool.notify(&header, &unknown, ASK).unwrap();
    assert_eq!((reply.acknowledged.len(), reply.silent.len()), (2, 0));
    let watchers = pool.list_watchers(&header).unwrap();
    for answer in &reply.acknowledged {
        assert_eq!(watchers.iter().filter(|watcher| answer.watch.is_of(watcher)).count(), 1);
        let code = (-libc::EOPNOTSUPP).to_le_bytes();
        let owns_lock = answer.watch.client != pool.cluster().instance_id();
        assert_eq!(answer.payload.ends_with(&code), owns_lock, "{answer:?}");
    }
    drop(own);

    pool.write_full("nobody-watches", b"").unwrap();
    assert_eq!(pool.notify("nobody-watches", b"", ASK).unwrap(), Default::default());
    assert_eq!(pool.notify("missing", b"", ASK).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_reader_of_few_rights_is_told_the_same() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let user = unique("reader");
    let (entity, caps) = (format!("client.{user}"), format!("profile rbd-read-only pool={}", pool.name()));
    TestCluster::shared().ceph(["auth", "get-or-create", &entity, "mon", "profile rbd-read-only", "osd", &caps]);
    let builder = Cluster::builder().config_file(TestCluster::shared().conf()).user(&user);
    let reader = builder.key(pool.cluster().auth_key(&entity).unwrap()).connect().unwrap();
    let _holder = TestCluster::shared().lock_image(&pool.spec("image"));
    let usage = of(&Survey::new(&reader).ask_watchers(ASK), &pool, "image");
    let [owner] = usage.clients.as_slice() else { panic!("{usage}") };
    assert_eq!((owner.locks.len(), owner.state), (1, State::Alive));
    assert_eq!(usage.unseen, [], "{usage}");
}

/// A `/sys` with the rbd bus, and mappings in it.
struct Sys(tempfile::TempDir);

impl Sys {
    fn new() -> Self {
        let sys = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(sys.path().join("bus/rbd/devices")).unwrap();
        sys
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn krbd(&self) -> Krbd {
        Krbd::with_roots(self.path(), "/dev", "/proc")
    }

    /// A mapping as the kernel shows it.
    fn map(&self, id: u32, fsid: &str, usage: &Usage, [snapshot, address, client]: [&str; 3]) {
        let directory = self.path().join(format!("bus/rbd/devices/{id}"));
        fs::create_dir(&directory).unwrap();
        let image_id = usage.image.id.as_ref().unwrap().as_str();
        // Its name when it was mapped: it has been renamed since.
        let attributes = [
            ("pool", usage.pool.as_str()),
            ("pool_ns", ""),
            ("name", "earlier"),
            ("image_id", image_id),
            ("current_snap", snapshot),
            ("cluster_fsid", fsid),
            ("client_addr", address),
            ("client_id", client),
            ("major", "4095"),
            ("minor", &id.to_string()),
        ];
        for (attribute, value) in attributes {
            fs::write(directory.join(attribute), format!("{value}\n")).unwrap();
        }
    }
}

#[test]
fn mappings_of_this_host_are_found_by_image_id_and_cluster_and_joined_with_their_watches() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let fsid = pool.cluster().fsid().unwrap().to_string();
    let _holder = TestCluster::shared().hold_image(&pool.spec("image"));
    let unmapped = of(&Survey::new(&pool.cluster()), &pool, "image");
    let [watcher] = unmapped.clients.as_slice() else { panic!("{unmapped}") };
    let (address, id) = (watcher.address.unwrap().to_string(), watcher.id.unwrap());

    let sys = Sys::new();
    sys.map(3, &fsid, &unmapped, ["-", &address, &format!("client{id}")]);
    sys.map(4, &fsid, &unmapped, ["-", "192.0.2.10:0/7", "client7"]);
    sys.map(5, &fsid, &unmapped, ["before", "192.0.2.10:0/7", "client7"]);
    // The same ids of another cluster.
    sys.map(6, "11111111-1111-4111-8111-111111111111", &unmapped, ["-", &address, &format!("client{id}")]);
    let usage = of(&Survey::new(&pool.cluster()).krbd(&sys.krbd()), &pool, "image");
    let mapped = |client: &Client| client.mappings.iter().map(|mapping| mapping.device.id).collect::<Vec<_>>();
    assert_eq!((mapped(client(&usage, id)), mapped(client(&usage, 7))), (vec![3], vec![4, 5]));
    assert!(!client(&usage, id).has_lost_its_watch() && client(&usage, 7).has_lost_its_watch());
    assert_eq!(client(&usage, 7).place, Place::ThisHost);
    assert!(usage.mappings().all(|mapping| mapping.holders.is_some()), "{usage}");
    let without = of(&Survey::new(&pool.cluster()).krbd(&sys.krbd()).without_holders(), &pool, "image");
    assert!(without.mappings().all(|mapping| mapping.holders.is_none()));

    // Another image of the pool has none of them.
    create(&pool, "other");
    assert!(!of(&Survey::new(&pool.cluster()).krbd(&sys.krbd()), &pool, "other").is_used());
}

#[test]
fn a_client_on_the_blocklist_keeps_its_lock_and_loses_its_watch() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let _holder = TestCluster::shared().lock_image(&pool.spec("image"));
    let survey = Survey::new(&pool.cluster());
    let usage = of(&survey, &pool, "image");
    let address = usage.clients[0].address.unwrap();
    pool.cluster().blocklist_add(&address, Duration::from_secs(60)).unwrap();
    let usage = poll_until(Duration::from_secs(10), || {
        let usage = of(&survey, &pool, "image");
        usage.clients[0].watches.is_empty().then_some(usage)
    });
    let [client] = usage.clients.as_slice() else { panic!("{usage}") };
    assert!(client.is_gone_with_lock() && client.is_blocklisted(), "{usage}");
    let refused: Vec<_> = client.blocklisted.iter().map(|entry: &BlocklistEntry| entry.address).collect();
    assert_eq!(refused, [address]);
    pool.cluster().blocklist_remove(&address).unwrap();
}

#[test]
fn ranges_are_on_the_blocklist_too() {
    let library = connect(TestCluster::shared());
    let ceph = |verb| TestCluster::shared().ceph(["osd", "blocklist", "range", verb, "198.51.100.0/24"]);
    ceph("add");
    let listed = library.blocklist().unwrap();
    let range: Vec<_> = listed.iter().filter(|entry| entry.prefix.is_some()).map(ToString::to_string).collect();
    assert_eq!(range, ["198.51.100.0/24"]);
    assert!(listed.iter().any(|entry| entry.hits(&"198.51.100.9:0/7".parse().unwrap())));
    ceph("rm");
    assert!(library.blocklist().unwrap().iter().all(|entry| entry.prefix.is_none()));
}

#[test]
fn a_pool_is_scanned_for_watches_and_mappings_and_for_locks_only_when_asked() {
    let pool = OwnPool::new();
    ["held", "idle", "mapped"].iter().for_each(|name| create(&pool, name));
    create_format_1(&pool, "old");
    let _holder = TestCluster::shared().lock_image(&pool.spec("held"));
    let _old = pool.open("old").unwrap();
    let survey = Survey::new(&pool.cluster());
    let (sys, fsid) = (Sys::new(), pool.cluster().fsid().unwrap().to_string());
    sys.map(3, &fsid, &of(&survey, &pool, "mapped"), ["-", "192.0.2.10:0/7", "client7"]);
    let survey = survey.krbd(&sys.krbd());
    let used = |usages: &mut dyn Iterator<Item = rbd::Result<ImageUsage>>| {
        let users = usages.map(|usage| {
            let usage = usage.unwrap();
            let clients = usage.clients.unwrap();
            let count = |of: fn(&Client) -> usize| clients.iter().map(of).sum::<usize>();
            let counts = [count(|c| c.watches.len()), count(|c| c.mappings.len()), count(|c| c.locks.len())];
            (usage.image.name.to_string(), counts)
        });
        users.collect::<Vec<_>>()
    };
    let expected = |locks| {
        [("held", [1, 0, locks]), ("idle", [0, 0, 0]), ("mapped", [0, 1, 0]), ("old", [1, 0, 0])]
            .map(|(name, counts)| (name.to_owned(), counts))
    };
    let mut scan = survey.of_pool(&pool);
    assert_eq!(scan.unseen(), []);
    assert_eq!(used(&mut scan), expected(0));
    assert_eq!(used(&mut survey.of_pool(&pool).with_locks()), expected(1));
    let node = "192.0.2.10".parse().unwrap();
    assert_eq!(used(&mut survey.of_pool(&pool).of_node(node)), [("mapped".to_owned(), [0, 1, 0])]);
    assert_eq!(used(&mut Usage::of_pool(&pool).of_node("127.0.0.1".parse().unwrap())).len(), 2);
}

/// Case B12: nobody knows when a watch ends, so it is waited for.
#[test]
fn a_wait_ends_when_the_last_user_goes_and_its_time_out_names_who_is_left() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let (survey, spec) = (Survey::new(&pool.cluster()), pool.spec("image").parse().unwrap());
    let holder = TestCluster::shared().lock_image(&pool.spec("image"));
    let _own = pool.open("image").unwrap();
    let own = pool.cluster().instance_id();
    let exclude = |client: &Client| client.id == Some(own);
    let error = survey.wait_until_unused(&spec, exclude, Duration::from_millis(500)).unwrap_err();
    let Details::Clients(left) = error.details() else { panic!("{error:?}") };
    assert_eq!((error.kind(), left.len(), left[0].locks.len()), (ErrorKind::TimedOut, 1, 1));
    assert!(error.to_string().contains(&left[0].to_string()), "{error}");
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| survey.wait_until_unused(&spec, exclude, Duration::from_secs(60)));
        drop(holder);
        wait.join().unwrap().unwrap();
    });
    // A lock that nobody watches for does not go by itself.
    TestCluster::shared().rbd(["lock", "add", &pool.spec("image"), "by hand"]);
    let error = survey.wait_until_unused(&spec, exclude, Duration::from_millis(500)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

/// A daemon that registers as the real one does, and watches an image.
const MIRROR_DAEMON: &str = r#"
import rados, rbd, os, sys, json
with rados.Rados(conffile=os.environ["CEPH_CONF"]) as cluster:
    cluster.service_daemon_register("rbd-mirror", "a", {"id": "a"})
    with cluster.open_ioctx("rbd") as ioctx, rbd.Image(ioctx, sys.argv[1]) as image:
        print(cluster.get_instance_id(), flush=True)
        sys.stdin.read()
"#;

#[test]
fn a_mirror_daemon_is_recognised_by_the_service_map() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let private = PrivateCluster::start(&["--store", "memstore", "--mgr"]);
    let made = private.image(&["--size", "8M"]);
    private.rbd(["mirror", "pool", "enable", "rbd", "image"]);
    private.rbd(["mirror", "image", "enable", made.spec(), "snapshot"]);
    let mut daemon = private.command("/usr/bin/python3", ["-c", MIRROR_DAEMON, made.name()]);
    let mut daemon = daemon.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut id = String::new();
    BufReader::new(daemon.stdout.as_mut().unwrap()).read_line(&mut id).unwrap();
    let id: u64 = id.trim().parse().unwrap();
    let library = connect(&private);
    let own = library.open(&made.spec().parse().unwrap()).unwrap();
    // The manager tells the monitors every few seconds.
    let usage = poll_until(Duration::from_secs(60), || {
        let usage = Usage::of(&library, &made.spec().parse().unwrap()).unwrap();
        client(&usage, id).mirror_daemon.then_some(usage)
    });
    assert_eq!(usage.clients.len(), 2);
    assert_eq!(usage.others().count(), 0, "{usage}");
    drop((own, daemon.stdin.take()));
    daemon.wait().unwrap();
}
