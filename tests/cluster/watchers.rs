//! Who watches an image or an object: what `rbd status` and `rados listwatchers` say.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rbd::image::ImageOptions;
use rbd::{Details, ErrorKind, HeaderObject, Image, Pool, Watcher, WatcherKind};
use serde_json::Value;

use super::library::{OwnPool, connect, create_format_1, image};
use super::support::TestCluster;

const TIME_ENOUGH: Duration = Duration::from_secs(30);

fn create(pool: &Pool, name: &str) {
    pool.create_image(&image(name), 8 << 20, &ImageOptions::new()).unwrap();
}

/// Each watcher as `rbd status --format json` has it.
fn rbd_status(pool: &Pool, name: &str) -> BTreeSet<(String, u64, u64)> {
    let status = TestCluster::shared().rbd_json(["status", &format!("{pool}/{name}")]);
    let watchers = status["watchers"].as_array().unwrap().iter();
    let number = |value: &Value| value.as_u64().unwrap();
    watchers.map(|w| (w["address"].as_str().unwrap().to_owned(), number(&w["client"]), number(&w["cookie"]))).collect()
}

fn parts(watchers: &[Watcher]) -> BTreeSet<(String, u64, u64)> {
    watchers.iter().map(|watcher| (watcher.address.to_string(), watcher.client, watcher.cookie)).collect()
}

/// Each line of `rados listwatchers`, without the word `watcher=` before it.
fn rados_listwatchers(pool: &Pool, object: &str) -> BTreeSet<String> {
    let namespace = pool.namespace().map_or("", |namespace| namespace.as_str());
    let lines = TestCluster::shared().rados(["-p", pool.name().as_str(), "-N", namespace, "listwatchers", object]);
    lines.lines().map(|line| line.strip_prefix("watcher=").unwrap().to_owned()).collect()
}

fn lines(watchers: &[Watcher]) -> BTreeSet<String> {
    watchers.iter().map(ToString::to_string).collect()
}

/// One other program and one handle of ours watch the image; everybody is asked who that is.
fn both_programs_agree(pool: &Pool, name: &str) {
    let ours = pool.open(name).unwrap();
    let _holder = TestCluster::shared().hold_image(&format!("{pool}/{name}"));
    let reader = pool.open_read_only(name).unwrap();
    let header = reader.header_object().unwrap();

    let watchers = reader.watchers().unwrap();
    assert_eq!(parts(&watchers), rbd_status(pool, name));
    assert_eq!(watchers.len(), 2);
    assert_eq!(parts(&ours.watchers().unwrap()), parts(&watchers));
    assert!(watchers.iter().all(|watcher| watcher.timeout.is_none()));

    let listed = pool.list_watchers(&header).unwrap();
    assert_eq!(lines(&listed), rados_listwatchers(pool, header.as_str()));
    assert_eq!(parts(&listed), parts(&watchers));
    for watcher in &listed {
        assert_eq!((watcher.kind(), watcher.timeout), (WatcherKind::UserSpace, Some(Duration::from_secs(30))));
        assert_eq!((watcher.address.ip().to_string().as_str(), watcher.address.port()), ("127.0.0.1", 0));
    }
    let own = pool.cluster().instance_id();
    assert_eq!(watchers.iter().filter(|watcher| watcher.client == own).count(), 1);
}

#[test]
fn an_image_in_the_default_namespace() {
    let pool = OwnPool::new();
    create(&pool, "image");
    both_programs_agree(&pool, "image");
}

#[test]
fn an_image_in_another_namespace() {
    let pool = OwnPool::new();
    TestCluster::shared().rbd(["namespace", "create", &pool.spec("tenant")]);
    let tenant = pool.in_namespace(Some(&"tenant".parse().unwrap())).unwrap();
    create(&tenant, "image");
    both_programs_agree(&tenant, "image");
}

#[test]
fn an_image_of_format_1() {
    let pool = OwnPool::new();
    create_format_1(&pool, "image");
    both_programs_agree(&pool, "image");
}

#[test]
fn an_object_that_is_no_header() {
    let pool = OwnPool::new();
    pool.write_full("object", b"").unwrap();
    assert_eq!(pool.list_watchers("object").unwrap(), []);
    let mut watch = TestCluster::shared().command("rados", ["-p", pool.name().as_str(), "watch", "object"]);
    let mut watch = watch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut greeting = String::new();
    BufReader::new(watch.stdout.as_mut().unwrap()).read_line(&mut greeting).unwrap();
    let watchers = pool.list_watchers("object").unwrap();
    assert_eq!(lines(&watchers), rados_listwatchers(&pool, "object"));
    assert_eq!(watchers.len(), 1);
    drop(watch.stdin.take());
    watch.wait().unwrap();
    assert_eq!(pool.list_watchers("object").unwrap(), []);
}

#[test]
fn a_missing_object_is_an_error_and_not_an_empty_list() {
    let pool = OwnPool::new();
    let missing = HeaderObject::of_id(&"fb236b8b4567".parse().unwrap());
    let error = pool.list_watchers(&missing).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::NotFound, Some(libc::ENOENT)));
    assert_eq!(error.object(), Some(pool.spec("rbd_header.fb236b8b4567").as_str()));
    let error = pool.wait_until_unwatched(&missing, |_| false, TIME_ENOUGH).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_reader_is_no_watcher_and_a_writer_is_one_until_it_closes() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let reader = pool.open_read_only("image").unwrap();
    assert_eq!(reader.watchers().unwrap(), []);
    let writer = pool.open("image").unwrap();
    assert_eq!(writer.watchers().unwrap().len(), 1);
    assert_eq!(reader.watchers().unwrap().len(), 1);
    writer.close().unwrap();
    assert_eq!(reader.watchers().unwrap(), []);
}

/// The first buffer has room for 16, and the list changes while it is read.
#[test]
fn a_list_that_outgrows_the_buffer_and_changes_meanwhile() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let reader = pool.open_read_only("image").unwrap();
    let mut writers: Vec<Image> = (0..15).map(|_| pool.open("image").unwrap()).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _more = [(); 4].map(|()| pool.open("image").unwrap());
            }
        });
        let mut seen = BTreeSet::new();
        let start = Instant::now();
        // Both below and above what the buffer holds.
        while !(seen.contains(&15) || seen.contains(&16)) || seen.last() < Some(&17) {
            let watchers = reader.watchers().unwrap();
            assert!((15..=19).contains(&watchers.len()), "{}", watchers.len());
            assert_eq!(parts(&watchers).len(), watchers.len(), "one is listed twice");
            seen.insert(watchers.len());
            assert!(start.elapsed() < TIME_ENOUGH, "{seen:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    writers.extend((0..25).map(|_| pool.open("image").unwrap()));
    let watchers = reader.watchers().unwrap();
    assert_eq!(watchers.len(), 40);
    assert_eq!(parts(&watchers), rbd_status(&pool, "image"));
    assert_eq!(parts(&watchers), parts(&pool.list_watchers(reader.header_object().unwrap()).unwrap()));
}

/// Case B12: no fixed time, and those who are left are named.
#[test]
fn waiting_for_a_holder_that_ends_and_for_one_that_stays() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let reader = pool.open_read_only("image").unwrap();
    let header = reader.header_object().unwrap();
    reader.wait_until_unwatched(|_| false, TIME_ENOUGH).unwrap();

    let holder = Cell::new(Some(TestCluster::shared().hold_image(&pool.spec("image"))));
    let watchers = reader.watchers().unwrap();
    assert_eq!(watchers.len(), 1);
    let (start, allowed) = (Instant::now(), Duration::from_millis(500));
    let error = reader.wait_until_unwatched(|_| false, allowed).unwrap_err();
    assert!(start.elapsed() >= allowed && start.elapsed() < TIME_ENOUGH, "{:?}", start.elapsed());
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.details(), &Details::Watchers(watchers.clone()));
    assert!(error.to_string().contains(&watchers[0].to_string()), "{error}");

    // It ends while it is waited for: in the middle of the first look.
    let first_look = |_: &Watcher| {
        drop(holder.take());
        false
    };
    pool.wait_until_unwatched(&header, first_look, TIME_ENOUGH).unwrap();
    assert_eq!(reader.watchers().unwrap(), []);
}

/// Case B05: a number of watchers says nothing; whoever may be there is told by name.
#[test]
fn those_who_may_watch_do_not_count() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let (writer, mirror) = (pool.open("image").unwrap(), connect(TestCluster::shared()));
    let _mirrors = [(); 2].map(|()| mirror.pool(pool.name().clone()).unwrap().open("image").unwrap());
    let allowed = [pool.cluster().instance_id(), mirror.instance_id()];
    let exclude = |watcher: &Watcher| allowed.contains(&watcher.client);
    assert_eq!(writer.watchers().unwrap().len(), 3);
    writer.wait_until_unwatched(exclude, TIME_ENOUGH).unwrap();
    let _user = TestCluster::shared().hold_image(&pool.spec("image"));
    let error = writer.wait_until_unwatched(exclude, Duration::from_millis(500)).unwrap_err();
    let Details::Watchers(left) = error.details() else { panic!("{error:?}") };
    assert_eq!((left.len(), exclude(&left[0])), (1, false));
}

#[test]
fn a_watched_image_is_not_removed_and_the_error_says_who_watches() {
    let pool = OwnPool::new();
    create(&pool, "image");
    create_format_1(&pool, "old");
    for name in ["image", "old"] {
        let holder = TestCluster::shared().hold_image(&pool.spec(name));
        let watchers = pool.open_read_only(name).unwrap().watchers().unwrap();
        let error = pool.remove_image(&image(name)).unwrap_err();
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, Some(libc::EBUSY)));
        assert_eq!(error.details(), &Details::Watchers(watchers));
        assert_eq!(error.object(), Some(pool.spec(name).as_str()));
        drop(holder);
        pool.remove_image(&image(name)).unwrap();
        assert_eq!(pool.open_read_only(name).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
