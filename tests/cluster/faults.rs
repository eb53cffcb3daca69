//! Daemons that die or fall silent between two calls, and clients that the cluster refuses.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rbd::rados::PoolOptions;
use rbd::{Cluster, Details, Error, ErrorKind, Image, Pool, Result};
use serde_json::json;

use super::child;
use super::library::{OwnPool, connect, image, spec};
use super::support::{PrivateCluster, TestCluster, poll_until};

const DEADLINE: Duration = Duration::from_secs(1);
/// More than a busy machine needs, less than any time-out of Ceph's or of this library's.
const SLACK: Duration = Duration::from_secs(10);

type Call = (&'static str, Box<dyn Fn() -> Result<()> + Send>);

fn call<T>(name: &'static str, call: impl Fn() -> Result<T> + Send + 'static) -> Call {
    (name, Box::new(move || call().map(drop)))
}

/// Makes all calls at once: each passes its deadline, and is still under way.
#[track_caller]
fn assert_all_pass_the_deadline(calls: Vec<Call>) {
    let calls = calls.into_iter().map(|(name, call)| {
        let thread = thread::spawn(move || {
            let start = Instant::now();
            (call(), start.elapsed())
        });
        (name, thread)
    });
    for (name, thread) in calls.collect::<Vec<_>>() {
        let (result, elapsed) = thread.join().unwrap();
        assert_still_running(&result.expect_err(name));
        assert!(elapsed >= DEADLINE && elapsed < DEADLINE + SLACK, "{name}: {elapsed:?}");
    }
}

#[track_caller]
fn assert_still_running(error: &Error) {
    assert_eq!((error.kind(), error.details()), (ErrorKind::TimedOut, &Details::StillRunning), "{error}");
}

/// The threads of this process that make calls with a deadline.
fn calling_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim() == "rbd-call").count()
}

/// Drops the last handle: its connection is shut down, and no thread stays behind.
#[track_caller]
fn assert_ends(last: Cluster) {
    assert_ne!(calling_threads(), 0);
    drop(last);
    poll_until(SLACK, || (calling_threads() == 0).then_some(()));
}

#[test]
fn without_a_monitor_no_call_outlasts_its_deadline() {
    child::run(
        |_| (),
        || {
            let private = PrivateCluster::start(&["--store", "memstore"]);
            let made = private.image(&["--size", "8M"]);
            let library = connect(&private);
            let pool = library.pool("rbd").unwrap();
            pool.write_full("o", b"data").unwrap();

            let paused = private.pause("mon.a");
            assert_all_pass_the_deadline(calls_to_monitors(&library.with_deadline(DEADLINE)));
            // What only OSDs are asked goes on.
            assert_eq!(pool.read("o", 0, 4).unwrap(), b"data");
            assert_eq!(pool.open_read_only(made.name()).unwrap().info().unwrap().size, 8 << 20);
            assert!(library.pools().unwrap().iter().any(|name| name.to_str() == Some("rbd")));
            drop(paused);
            assert!(library.cluster_version().is_ok());

            private.kill("mon.a");
            assert_all_pass_the_deadline(calls_to_monitors(&library.with_deadline(DEADLINE)));
            private.restart();
            assert!(library.cluster_version().is_ok());
            drop((pool, made));
            assert_ends(library);

            // librados' own time-out frees the threads of a monitor that never comes back.
            let builder = Cluster::builder().config_file(private.conf()).mon_timeout(Duration::from_secs(1));
            let library = builder.connect().unwrap();
            private.kill("mon.a");
            let command = json!({"prefix": "version"});
            assert_still_running(&library.with_deadline(Duration::from_millis(100)).mon_command(&command).unwrap_err());
            let given_up = library.mon_command(&command).unwrap_err();
            let says = (given_up.kind(), given_up.errno(), given_up.details());
            assert_eq!(says, (ErrorKind::TimedOut, Some(libc::ETIMEDOUT), &Details::None));
            assert_ends(library);
        },
    );
}

/// All that asks the monitors.
fn calls_to_monitors(library: &Cluster) -> Vec<Call> {
    let with = |name, ask: fn(&Cluster) -> Result<()>| {
        let library = library.clone();
        call(name, move || ask(&library))
    };
    vec![
        with("mon_command", |library| library.mon_command(&json!({"prefix": "version"})).map(drop)),
        with("cluster_version", |library| library.cluster_version().map(drop)),
        with("monitors", |library| library.monitors().map(drop)),
        with("auth_key", |library| library.auth_key("client.admin").map(drop)),
        with("blocklist", |library| library.blocklist().map(drop)),
        with("blocklist_remove", |library| library.blocklist_remove(&"192.0.2.1:0/1".parse()?)),
        with("pool", |library| library.pool("none").map(drop)),
        with("pool_name", |library| library.pool_name(999).map(drop)),
        with("create_pool", |library| library.create_pool(&"new".parse()?, &PoolOptions::default())),
    ]
}

#[test]
fn without_an_osd_no_call_outlasts_its_deadline() {
    child::run(
        |_| (),
        || {
            let private = PrivateCluster::start(&["--store", "memstore"]);
            let made = private.image(&["--size", "8M"]);
            let library = connect(&private);
            let pool = library.pool("rbd").unwrap();
            pool.write_full("o", b"data").unwrap();
            let reading = pool.open_read_only(made.name()).unwrap();
            let writing = pool.open(made.name()).unwrap();
            let closing = pool.open(made.name()).unwrap().with_deadline(DEADLINE);

            let paused = private.pause("osd.0");
            assert_all_pass_the_deadline(calls_to_osds(&pool.with_deadline(DEADLINE), &reading, made.name()));
            assert_all_are_withdrawn(&pool.with_deadline(DEADLINE));
            let data = [7; 4096];
            let _cached_or_not = writing.with_deadline(DEADLINE).write(0, &data);
            assert_still_running(&writing.with_deadline(DEADLINE).flush().unwrap_err());
            assert_still_running(&closing.close().unwrap_err());
            assert!(library.cluster_version().is_ok());
            drop(paused);

            // Nothing is lost without a time-out of the OSD's.
            writing.flush().unwrap();
            assert_eq!(reading.read(0, 4096).unwrap(), data);
            assert_eq!(pool.read("o", 0, 4).unwrap(), b"data");
            // What could not be closed in time is closed now.
            poll_until(SLACK, || (reading.watchers().unwrap().len() == 1).then_some(()));
            drop((reading, writing, pool));
            assert_ends(library);
        },
    );
}

/// What asks for one object passes its deadline too, and then nothing is under way any more.
#[track_caller]
fn assert_all_are_withdrawn(pool: &Pool) {
    let calls: [fn(&Pool) -> Result<()>; 3] = [
        |pool| pool.stat("o").map(drop),
        |pool| pool.read("o", 0, 4).map(drop),
        |pool| pool.list_watchers("o").map(drop),
    ];
    for call in calls {
        let start = Instant::now();
        assert_withdrawn(&call(pool).unwrap_err());
        assert!(start.elapsed() >= DEADLINE && start.elapsed() < DEADLINE + SLACK, "{:?}", start.elapsed());
    }
}

#[track_caller]
fn assert_withdrawn(error: &Error) {
    let says = (error.kind(), error.errno(), error.details());
    assert_eq!(says, (ErrorKind::TimedOut, None, &Details::None), "{error}");
}

/// All else that asks the OSDs.
fn calls_to_osds(pool: &Pool, reading: &Image, image: &str) -> Vec<Call> {
    let on_pool = |name, ask: fn(&Pool) -> Result<()>| {
        let pool = pool.clone();
        call(name, move || ask(&pool))
    };
    let on_image = |name, ask: fn(&Image) -> Result<()>| {
        let image = reading.with_deadline(DEADLINE);
        call(name, move || ask(&image))
    };
    let (opened, name) = (pool.clone(), image.to_owned());
    vec![
        call("open_read_only", move || opened.open_read_only(&*name)),
        on_pool("write", |pool| pool.write_full("o", b"data")),
        on_pool("xattr", |pool| pool.xattr("o", "a").map(drop)),
        on_pool("xattrs", |pool| pool.xattrs("o").map(drop)),
        on_pool("omap", |pool| pool.omap("o", b"", 1).map(drop)),
        on_pool("notify", |pool| pool.notify("o", b"", DEADLINE * 100).map(drop)),
        on_pool("images", |pool| pool.images().next().unwrap().map(drop)),
        on_pool("scan_watchers", |pool| pool.scan_watchers().next().unwrap().map(drop)),
        on_pool("osd_command", |pool| pool.cluster().osd_command(0, &json!({"prefix": "version"})).map(drop)),
        on_image("info", |image| image.info().map(drop)),
        on_image("watchers", |image| image.watchers().map(drop)),
        on_image("read", |image| image.read(0, 512).map(drop)),
    ]
}

/// More is under way than librados starts by default before it lets the next caller wait.
#[test]
fn calls_that_wait_for_a_silent_osd_hold_up_no_other() {
    const LENGTH: usize = 4 << 20;
    let private = PrivateCluster::start(&["--store", "memstore"]);
    let library = connect(&private);
    let throttles = ["objecter_inflight_ops", "objecter_inflight_op_bytes"];
    assert_eq!(throttles.map(|name| library.config(name).unwrap()), ["0", "0"]);
    let pool = library.pool("rbd").unwrap();
    pool.write_full("o", &vec![7; LENGTH]).unwrap();

    let paused = private.pause("osd.0");
    let waiting = [(); 40].map(|()| {
        let pool = pool.without_deadline();
        thread::spawn(move || pool.read("o", 0, LENGTH).unwrap())
    });
    // Those of the other threads are under way at the second one at the latest.
    for _ in 0..2 {
        let start = Instant::now();
        assert_withdrawn(&pool.with_deadline(DEADLINE).read("o", 0, LENGTH).unwrap_err());
        assert!(start.elapsed() < DEADLINE + SLACK);
    }
    drop(paused);
    for read in waiting {
        assert!(read.join().unwrap() == [7; LENGTH]);
    }
}

#[test]
fn what_was_withdrawn_does_not_keep_the_connection() {
    let private = PrivateCluster::start(&["--store", "memstore"]);
    let library = connect(&private);
    let pool = library.pool("rbd").unwrap();
    pool.write_full("o", b"data").unwrap();
    let _paused = private.pause("osd.0");
    assert_withdrawn(&pool.with_deadline(Duration::from_millis(100)).read("o", 0, 4).unwrap_err());
    drop(pool);
    library.disconnect().unwrap();
}

/// Where the configuration keeps librados from starting more, a call may have to wait before it is under way.
#[test]
fn a_configuration_that_holds_operations_back_is_kept_and_holds_up_no_caller() {
    let private = PrivateCluster::start(&["--store", "memstore"]);
    let library =
        Cluster::builder().config_file(private.conf()).option("objecter_inflight_ops", "1").connect().unwrap();
    assert_eq!(library.config("objecter_inflight_ops").unwrap(), "1");
    let pool = library.pool("rbd").unwrap();
    pool.write_full("o", b"data").unwrap();
    let paused = private.pause("osd.0");
    for _ in 0..2 {
        let start = Instant::now();
        assert_still_running(&pool.with_deadline(DEADLINE).read("o", 0, 4).unwrap_err());
        assert!(start.elapsed() < DEADLINE + SLACK);
    }
    drop(paused);
    assert_eq!(pool.read("o", 0, 4).unwrap(), b"data");
}

#[test]
fn a_killed_osd_is_waited_for_and_found_again() {
    let private = PrivateCluster::start(&[]);
    let library = connect(&private);
    let pool = library.pool("rbd").unwrap();
    pool.write_full("o", b"data").unwrap();
    private.kill("osd.0");
    let start = Instant::now();
    assert_withdrawn(&pool.with_deadline(DEADLINE).read("o", 0, 4).unwrap_err());
    assert!(start.elapsed() < DEADLINE + SLACK);
    private.restart();
    assert_eq!(pool.read("o", 0, 4).unwrap(), b"data");
    assert_eq!(pool.list_watchers("o").unwrap(), []);
}

#[test]
fn after_a_write_that_librados_gave_up_nothing_is_called_safe() {
    let private = PrivateCluster::start(&["--store", "memstore"]);
    let made = private.image(&["--size", "64M"]);
    let plain = Cluster::builder().config_file(private.conf());
    assert!(plain.connect().unwrap().config("rados_osd_op_timeout").unwrap().parse::<f64>().unwrap() == 0.0);

    let library = plain.osd_timeout(Duration::from_secs(1)).connect().unwrap();
    let written = library.open(&spec(made.spec())).unwrap();
    let beside = library.open(&spec(made.spec()).clone()).unwrap();
    // librbd's cache, if it is on, holds writes back after the first flush only.
    written.write(0, &[1; 4096]).unwrap();
    written.flush().unwrap();
    let paused = private.pause("osd.0");
    let given_up = written.write(4096, &[2; 4096]).unwrap_err();
    let says = (given_up.kind(), given_up.errno(), given_up.details());
    assert_eq!(says, (ErrorKind::TimedOut, Some(libc::ETIMEDOUT), &Details::None), "{given_up}");
    let lost = Some("an earlier write on it timed out and its data may be lost");
    let flushed = written.flush().unwrap_err();
    assert_eq!((flushed.kind(), flushed.hint()), (ErrorKind::TimedOut, lost));
    drop(paused);
    written.write(4096, &[3; 4096]).unwrap();
    assert_eq!(written.flush().unwrap_err().hint(), lost);
    let closed = written.close().unwrap_err();
    assert_eq!((closed.operation(), closed.kind(), closed.hint()), ("close image", ErrorKind::TimedOut, lost));
    // It is the handle that is spoilt, not the connection.
    beside.flush().unwrap();
    beside.close().unwrap();
}

/// An image's or a pool's own option wins over the connection's.
#[test]
fn with_an_osd_time_out_nothing_is_written_through_a_cache() {
    let cluster = TestCluster::shared();
    let pool = OwnPool::new();
    for name in ["own", "plain"] {
        pool.create_image(&image(name), 8 << 20, &Default::default()).unwrap();
    }
    cluster.rbd(["config", "image", "set", &pool.spec("own"), "rbd_cache", "true"]);
    let builder = Cluster::builder().config_file(cluster.conf());
    let timed = builder.clone().osd_timeout(Duration::from_secs(60)).connect().unwrap();
    let open = |library: &Cluster, name| library.open(&spec(&pool.spec(name))).unwrap();

    let cached = open(&timed, "own");
    let refused = cached.write(0, b"data").unwrap_err();
    assert_eq!((refused.kind(), refused.operation()), (ErrorKind::Unsupported, "write image"), "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("rbd_cache")), "{refused}");
    cached.info().unwrap();
    // The cache of a handle stays as it was when the image was opened.
    cluster.rbd(["config", "image", "remove", &pool.spec("own"), "rbd_cache"]);
    assert_eq!(cached.write(0, b"data").unwrap_err().kind(), ErrorKind::Unsupported);
    cached.close().unwrap();
    open(&timed, "own").write(0, b"data").unwrap();

    cluster.rbd(["config", "pool", "set", pool.name().as_str(), "rbd_cache", "true"]);
    assert_eq!(open(&timed, "plain").write(0, b"data").unwrap_err().kind(), ErrorKind::Unsupported);
    open(&builder.connect().unwrap(), "plain").write(0, b"data").unwrap();
}

#[test]
fn a_blocklisted_connection_says_so_at_once_and_for_ever() {
    let pool = OwnPool::new();
    pool.create_image(&image("held"), 8 << 20, &Default::default()).unwrap();
    let library = connect(TestCluster::shared());
    let refused = library.pool(pool.name().clone()).unwrap();
    let held = refused.open("held").unwrap();
    let addresses = library.addresses().unwrap();
    for address in &addresses {
        pool.cluster().blocklist_add(address, Duration::from_secs(600)).unwrap();
    }

    // An OSD refuses once it has the new map.
    let first = poll_until(Duration::from_secs(10), || refused.write_full("o", b"data").err());
    assert_eq!((first.kind(), first.errno()), (ErrorKind::Blocklisted, Some(libc::ESHUTDOWN)), "{first}");
    for address in &addresses {
        pool.cluster().blocklist_remove(address).unwrap();
    }
    let start = Instant::now();
    let later = [
        refused.stat("o").unwrap_err(),
        refused.open_read_only("held").unwrap_err(),
        refused.images().next().unwrap().unwrap_err(),
        library.pools().unwrap_err(),
        library.pool("rbd").unwrap_err(),
        library.mon_command(&json!({"prefix": "version"})).unwrap_err(),
        held.write(0, b"data").unwrap_err(),
        held.flush().unwrap_err(),
        held.info().unwrap_err(),
        held.close().unwrap_err(),
    ];
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    for error in later {
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Blocklisted, Some(libc::ESHUTDOWN)), "{error}");
        assert_eq!(error.hint(), Some("this connection stays useless; drop its handles and connect again"));
    }
    // What needs no cluster is answered.
    assert_eq!(library.config("rbd_default_pool").unwrap(), "rbd");
    drop(refused);
    library.disconnect().unwrap();

    let again = connect(TestCluster::shared()).pool(pool.name().clone()).unwrap();
    again.write_full("o", b"data").unwrap();
    again.open("held").unwrap().close().unwrap();
}
