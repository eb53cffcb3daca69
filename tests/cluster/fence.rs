//! Fencing: the node is dead, frozen or cut off, and another takes its image.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rbd::image::ImageOptions;
use rbd::usage::{Client, Fence, Place, State, Survey, unfence};
use rbd::{Cluster, Details, EntityAddress, ErrorKind, ImageSpec, Result};

use super::library::{OwnPool, connect, image};
use super::support::{Paused, PrivateCluster, TestCluster, example, poll_until, stdout, unique};

/// Only who is silent makes it wait so long.
const ASK: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(30);

/// A client that writes to an image, keeps it open, and writes again whenever it is told to.
struct Writer {
    child: Child,
    said: mpsc::Receiver<String>,
}

const WRITER: &str = r#"
import itertools, os, rados, rbd, sys
pool, name = sys.argv[1].split("/")
cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
cluster.connect()
image = rbd.Image(cluster.open_ioctx(pool), name)
for line in itertools.chain(["old"], sys.stdin):
    try:
        image.write(line.strip().encode(), 0)
        image.flush()
        print("written", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
os._exit(0)
"#;

impl Writer {
    fn new(cluster: &TestCluster, spec: &str) -> Self {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", WRITER, spec]).env("CEPH_CONF", cluster.conf()).env_remove("CEPH_ARGS");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (say, said) = mpsc::channel();
        std::thread::spawn(move || output.lines().try_for_each(|line| say.send(line.ok()?).ok()));
        let writer = Self { child, said };
        assert_eq!(writer.said.recv_timeout(PATIENCE).as_deref(), Ok("written"));
        writer
    }

    /// Has it write at the beginning of the image, and says whether it thinks that this went well. librbd may wait for
    /// ever for a lock that it has lost.
    fn writes(&mut self, text: &str) -> bool {
        writeln!(self.child.stdin.as_mut().unwrap(), "{text}").unwrap();
        self.said.recv_timeout(Duration::from_secs(5)).is_ok_and(|said| said == "written")
    }

    fn pause(&self) -> Paused {
        Paused::process(self.child.id())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Story {
    cluster: Cluster,
    spec: ImageSpec,
}

impl Story {
    fn new(pool: &OwnPool) -> Self {
        pool.create_image(&image("image"), 8 << 20, &ImageOptions::new()).unwrap();
        Self { cluster: pool.cluster(), spec: pool.spec("image").parse().unwrap() }
    }

    fn survey(&self) -> Survey {
        Survey::new(&self.cluster).ask_watchers(ASK).without_holders()
    }

    /// Everything on the test cluster is on this host.
    fn fence(&self, suspect: impl Into<rbd::usage::Suspect>) -> Fence {
        Fence::new(&self.cluster, suspect).survey(self.survey()).expiry(Duration::from_secs(600)).even_if_local()
    }

    /// The only user.
    fn user(&self) -> Client {
        let usage = self.survey().of(&self.spec).unwrap();
        let [client] = usage.clients.try_into().unwrap();
        client
    }

    fn is_blocklisted(&self, address: &EntityAddress) -> bool {
        self.cluster.blocklist().unwrap().iter().any(|entry| entry.address.same_endpoint(address))
    }

    /// A new node takes over: it opens the image and gets the lock at once, with nobody to ask for it.
    fn take_over(&self) {
        let image = self.cluster.open(&self.spec).unwrap();
        image.write(0, b"new").unwrap();
        image.flush().unwrap();
        assert!(image.is_lock_owner().unwrap());
        image.close().unwrap();
    }

    fn content(&self) -> Vec<u8> {
        self.cluster.open_read_only(&self.spec).unwrap().read(0, 3).unwrap()
    }
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, hint: &str) {
    let error = result.unwrap_err();
    assert_eq!((error.operation(), error.kind()), ("fence client", kind), "{error}");
    assert!(error.hint().unwrap().contains(hint), "{error}");
}

/// Story 2: while it answers, nobody is fenced; frozen, it is; woken, it can write nothing.
#[test]
fn a_frozen_client_is_fenced_and_woken_it_writes_nothing() {
    let pool = OwnPool::new();
    let story = Story::new(&pool);
    let mut writer = Writer::new(TestCluster::shared(), &pool.spec("image"));
    let alive = story.user();
    assert_eq!(alive.state, State::Alive);
    assert_refused(story.fence(alive.watches[0]).run(&story.spec), ErrorKind::Busy, "it is alive");
    assert_refused(story.fence(alive.locks[0].clone()).run(&story.spec), ErrorKind::Busy, "it is alive");
    assert_refused(story.fence(alive.address.unwrap()).run(&story.spec), ErrorKind::Busy, "it is alive");
    assert!(!story.is_blocklisted(&alive.address.unwrap()));
    assert!(writer.writes("old"));

    let paused = writer.pause();
    let frozen = story.user();
    assert_eq!((frozen.state, frozen.id), (State::Silent, alive.id));
    let plan = story.fence(frozen.watches[0]).plan(&story.spec).unwrap();
    assert_eq!((plan.address, plan.images), (frozen.address.unwrap(), Some(vec!["image".to_owned()])));
    assert!(!story.is_blocklisted(&plan.address));
    let fenced = story.fence(frozen.watches[0]).run(&story.spec).unwrap();
    assert_eq!((fenced.plan.clients.len(), fenced.broken.as_slice()), (1, frozen.locks.as_slice()));
    assert_eq!(fenced.watches_left, []);
    assert!(story.is_blocklisted(&plan.address));
    assert!(!story.survey().of(&story.spec).unwrap().is_used());
    story.take_over();

    drop(paused);
    assert!(!writer.writes("bad"));
    assert_eq!(story.content(), b"new");
    drop(writer);
    unfence(&story.cluster, &plan.address).unwrap();
    assert!(!story.is_blocklisted(&plan.address));
    assert_eq!(unfence(&story.cluster, &plan.address).unwrap_err().kind(), ErrorKind::NotFound);
}

/// A killed client is silent until its watch expires.
#[test]
fn a_killed_client_is_fenced_before_its_watch_has_expired() {
    let pool = OwnPool::new();
    let story = Story::new(&pool);
    drop(Writer::new(TestCluster::shared(), &pool.spec("image")));
    let dead = story.user();
    assert_eq!(dead.state, State::Silent);
    let fenced = story.fence(dead.watches[0]).run(&story.spec).unwrap();
    assert_eq!((fenced.broken.len(), fenced.watches_left.len()), (1, 0));
    story.take_over();
    unfence(&story.cluster, &fenced.plan.address).unwrap();
}

/// It watches no more, and still owns the lock: dead, or frozen, and then it could come back.
#[test]
fn a_client_is_fenced_by_its_lock_after_its_watch_has_expired() {
    let private = PrivateCluster::start(&["--store", "memstore"]);
    private.ceph(["config", "set", "osd", "osd_client_watch_timeout", "3"]);
    let pool = OwnPool::on(&private);
    let story = Story::new(&pool);
    let gone = || poll_until(PATIENCE, || Some(story.user()).filter(|client| client.watches.is_empty()));
    let fence_by_lock = || {
        let gone = gone();
        assert!(gone.is_gone_with_lock() && gone.state == State::Unknown, "{gone:?}");
        let fenced = story.fence(gone.locks[0].clone()).run(&story.spec).unwrap();
        assert_eq!(fenced.broken, gone.locks);
        story.take_over();
    };
    drop(Writer::new(&private, &pool.spec("image")));
    fence_by_lock();

    let mut writer = Writer::new(&private, &pool.spec("image"));
    let before = story.user();
    let paused = writer.pause();
    gone();
    // By the watch that it had, too: its owner is gone with the lock.
    story.fence(before.watches[0]).plan(&story.spec).unwrap();
    fence_by_lock();
    drop(paused);
    assert!(!writer.writes("bad"));
    assert_eq!(story.content(), b"new");
}

/// Case B08: the volume has moved meanwhile, and what was read is somebody else's now.
#[test]
fn one_that_is_no_longer_there_is_not_fenced() {
    let pool = OwnPool::new();
    let story = Story::new(&pool);
    let holder = TestCluster::shared().lock_image(&pool.spec("image"));
    let earlier = story.user();
    drop(holder);
    let _now = TestCluster::shared().lock_image(&pool.spec("image"));
    let look_again = "not the one that was meant";
    assert_refused(story.fence(earlier.watches[0]).run(&story.spec), ErrorKind::Changed, look_again);
    assert_refused(story.fence(earlier.locks[0].clone()).run(&story.spec), ErrorKind::Changed, look_again);
    assert!(!story.is_blocklisted(&earlier.address.unwrap()));
    for whole_host in ["127.0.0.1", "127.0.0.1:0/0", "-"] {
        let address: EntityAddress = whole_host.parse().unwrap();
        assert_refused(story.fence(address).run(&story.spec), ErrorKind::InvalidInput, "without a nonce");
    }
}

#[test]
fn an_address_given_outright_is_fenced_though_it_is_not_seen() {
    let pool = OwnPool::new();
    let story = Story::new(&pool);
    let address: EntityAddress = "192.0.2.10:0/2359070641".parse().unwrap();
    // `profile rbd` is enough to fence, and not to take that back.
    let user = unique("writer");
    let (entity, profile) = (format!("client.{user}"), "profile rbd");
    TestCluster::shared().ceph(["auth", "get-or-create", &entity, "mon", profile, "osd", profile]);
    let builder = Cluster::builder().config_file(TestCluster::shared().conf()).user(&user);
    let writer = builder.key(story.cluster.auth_key(&entity).unwrap()).connect().unwrap();
    let survey = Survey::new(&writer).ask_watchers(ASK).without_holders();
    let fenced = Fence::new(&writer, address).survey(survey).run(&story.spec).unwrap();
    assert_eq!((fenced.plan.clients.len(), fenced.broken.len()), (0, 0));
    assert!(story.is_blocklisted(&address));
    assert_eq!(unfence(&writer, &address).unwrap_err().kind(), ErrorKind::PermissionDenied);
    unfence(&story.cluster, &address).unwrap();
}

#[test]
fn this_program_and_this_host_are_refused_and_so_is_who_was_not_asked() {
    let pool = OwnPool::new();
    let story = Story::new(&pool);
    let own = story.cluster.open(&story.spec).unwrap();
    let user = story.user();
    let fence = Fence::new(&story.cluster, user.watches[0]).survey(story.survey());
    assert_refused(fence.run(&story.spec), ErrorKind::Busy, "this program's own");
    own.close().unwrap();
    let address = story.cluster.addresses().unwrap()[0];
    let fence = Fence::new(&story.cluster, address).survey(story.survey());
    assert_refused(fence.run(&story.spec), ErrorKind::Busy, "this program's own");

    let holder = TestCluster::shared().lock_image(&pool.spec("image"));
    let user = story.user();
    let fence = Fence::new(&story.cluster, user.watches[0]).survey(story.survey());
    assert_refused(fence.plan(&story.spec), ErrorKind::Busy, "on this host");
    let unasked = story.fence(user.watches[0]).survey(Survey::new(&story.cluster));
    let error = unasked.plan(&story.spec).unwrap_err();
    assert_eq!(error.details(), &Details::Watchers(user.watches.clone()), "{error}");
    assert!(error.hint().unwrap().contains("not known"), "{error}");
    story.fence(user.watches[0]).even_if_alive().plan(&story.spec).unwrap();
    assert!(!story.is_blocklisted(&user.address.unwrap()));
    drop(holder);
}

#[test]
fn whoever_is_alive_is_fenced_where_the_policy_says_so_with_all_its_images_named() {
    let pool = OwnPool::new();
    let story = Story::new(&pool);
    pool.create_image(&image("other"), 8 << 20, &ImageOptions::new()).unwrap();
    // One client with two images, as a kernel client has.
    let victim = connect(TestCluster::shared());
    let opened = [victim.open(&story.spec).unwrap(), victim.open(&pool.spec("other").parse().unwrap()).unwrap()];
    opened[0].write(0, b"old").unwrap();
    let fence = story.fence(story.user().watches[0]).even_if_alive();
    let plan = fence.plan(&story.spec).unwrap();
    assert_eq!(plan.images.as_deref(), Some(["image", "other"].map(String::from).as_slice()));
    assert!(plan.to_string().contains("it has 2 images of the pool open: image, other"), "{plan}");
    let fenced = fence.run(&story.spec).unwrap();
    assert_eq!((fenced.broken.len(), fenced.watches_left.len()), (1, 0));
    assert_eq!(opened[0].write(0, b"bad").and_then(|()| opened[0].flush()).unwrap_err().kind(), ErrorKind::Blocklisted);
    story.take_over();
    unfence(&story.cluster, &fenced.plan.address).unwrap();
}

/// Case B03: addresses with colons and brackets all the way.
#[test]
fn a_client_with_an_ipv6_address_is_seen_and_fenced_by_it() {
    let private = PrivateCluster::start(&["--store", "memstore", "--addr", "::1"]);
    let pool = OwnPool::on(&private);
    let story = Story::new(&pool);
    drop(Writer::new(&private, &pool.spec("image")));
    let dead = story.user();
    let address = dead.address.unwrap();
    assert!(address.to_string().starts_with("[::1]:0/"), "{address}");
    assert_eq!((dead.state, dead.place), (State::Silent, Place::ThisHost));
    let fenced = story.fence(dead.locks[0].clone()).run(&story.spec).unwrap();
    assert_eq!((fenced.plan.address, fenced.broken.len(), fenced.watches_left.len()), (address, 1, 0));
    assert!(story.is_blocklisted(&address));
    unfence(&story.cluster, &address).unwrap();
}

/// What an operator types.
#[test]
fn the_examples_tell_the_story() {
    let pool = OwnPool::new();
    let story = Story::new(&pool);
    let spec = pool.spec("image");
    let run = |name: &str, arguments: &[&str]| {
        let program = example(name);
        TestCluster::shared().command(program.to_str().unwrap(), arguments).output().unwrap()
    };
    let mut writer = Writer::new(TestCluster::shared(), &spec);
    let id = story.user().id.unwrap();
    let client = format!("client.{id}");
    let refused = run("fence", &[&spec, &client, "--even-if-local", "--ask", "3"]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr.contains("it is alive: it has acknowledged a notify"), "{stderr}");

    let paused = writer.pause();
    let users =
        stdout(&mut TestCluster::shared().command(example("image_users").to_str().unwrap(), [&spec, "--ask=3"]));
    assert!(users.contains(&client) && users.contains("silent: it does not answer"), "{users}");
    let fenced = run("fence", &[&spec, &client, "--even-if-local", "--ask", "3", "--hours", "1"]);
    let said = String::from_utf8_lossy(&fenced.stdout).into_owned();
    assert!(fenced.status.success(), "{fenced:?}");
    assert!(said.contains("is refused by the cluster for 3600 s") && said.contains("its lock"), "{said}");
    assert!(said.ends_with("it watches the image no more\n"), "{said}");
    story.take_over();
    drop(paused);
    assert!(!writer.writes("bad"));
    assert_eq!(story.content(), b"new");
    drop(writer);
    let address = said.split(' ').next().unwrap();
    assert!(run("fence", &["--undo", address]).status.success());
}
