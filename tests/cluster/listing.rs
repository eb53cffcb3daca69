//! The images of a pool, and the scan of their watchers.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rbd::image::{ImageEntry, ImageOptions, ScannedImage};
use rbd::{Cluster, ErrorKind, Features, ImageName, Pool, Result, Watcher};

use super::library::{OwnPool, create_format_1, image};
use super::support::{PrivateCluster, TestCluster, poll_until, stdout};

fn create(pool: &Pool, name: &str) {
    // Only with the feature `layering` it takes no more than four objects.
    pool.create_image(&image(name), 4096, &ImageOptions::new().features(Features::LAYERING)).unwrap();
}

fn list(pool: &Pool) -> Vec<ImageEntry> {
    pool.images().map(Result::unwrap).collect()
}

fn names(pool: &Pool) -> Vec<String> {
    list(pool).iter().map(|entry| entry.name.to_string()).collect()
}

/// Name and id of each image, as `rbd ls` has them.
#[track_caller]
fn agrees_with_rbd_ls(pool: &Pool) {
    let listed = TestCluster::shared().rbd_json(["ls", "--long", &pool.to_string()]);
    let listed = listed.as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let theirs: BTreeMap<_, _> = listed.map(|entry| (text(&entry["image"]), text(&entry["id"]))).collect();
    let id = |entry: &ImageEntry| entry.id.as_ref().map(ToString::to_string).unwrap_or_default();
    let ours: BTreeMap<_, _> = list(pool).iter().map(|entry| (entry.name.to_string(), id(entry))).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn a_pool_without_images_and_a_namespace_without_anything() {
    let pool = OwnPool::new();
    assert_eq!(list(&pool), []);
    assert!(pool.scan_watchers().next().is_none());
    let nowhere = pool.in_namespace(Some(&"nowhere".parse().unwrap())).unwrap();
    assert_eq!(list(&nowhere), []);
    assert!(nowhere.scan_watchers().next().is_none());
}

#[test]
fn images_of_both_formats_and_of_this_namespace_only() {
    let pool = OwnPool::new();
    TestCluster::shared().rbd(["namespace", "create", &pool.spec("tenant")]);
    let tenant = pool.in_namespace(Some(&"tenant".parse().unwrap())).unwrap();
    create(&tenant, "of the tenant");
    for name in ["b", "my disk", " ", "Жук"] {
        create(&pool, name);
    }
    create_format_1(&pool, "a");
    assert_eq!(names(&pool), [" ", "b", "my disk", "Жук", "a"]);
    assert_eq!(names(&tenant), ["of the tenant"]);
    agrees_with_rbd_ls(&pool);
    agrees_with_rbd_ls(&tenant);
    let headers = list(&pool).iter().map(|entry| entry.header_object().unwrap()).collect::<Vec<_>>();
    assert_eq!(headers.last().unwrap().as_str(), "a.rbd");
    for header in headers {
        pool.stat(header).unwrap();
    }
}

#[test]
fn an_image_in_the_trash_is_not_listed() {
    let pool = OwnPool::new();
    create(&pool, "kept");
    create(&pool, "thrown-away");
    TestCluster::shared().rbd(["trash", "mv", &pool.spec("thrown-away")]);
    assert_eq!(names(&pool), ["kept"]);
    agrees_with_rbd_ls(&pool);
}

/// One name that is no UTF-8 spoils neither a listing nor a scan, and the image can be opened.
#[test]
fn names_that_are_no_utf_8() {
    let pool = OwnPool::new();
    create(&pool, "fine");
    for (format, name) in [("2", b"pvc-\xff"), ("1", b"old-\xfe")] {
        let spec = [pool.spec("").as_bytes(), name].concat();
        let arguments = ["create", "--size", "8M", "--image-format", format].map(OsString::from);
        let mut rbd = TestCluster::shared().command("rbd", arguments.into_iter().chain([OsString::from_vec(spec)]));
        stdout(rbd.env("RBD_FORCE_ALLOW_V1", "1"));
    }
    let ls = TestCluster::shared().command("rbd", ["ls", pool.name().as_str()]).output().unwrap().stdout;
    let theirs: BTreeSet<&[u8]> = ls.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let entries = list(&pool);
    assert_eq!(entries.iter().map(|entry| entry.name.as_bytes()).collect::<BTreeSet<_>>(), theirs);
    assert_eq!(
        entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>(),
        ["fine", r"pvc-\xff", r"old-\xfe"]
    );

    let id = entries[1].id.as_ref().unwrap();
    assert_eq!(ImageName::try_from(&entries[1].name).unwrap_err().kind(), ErrorKind::InvalidName);
    let info = pool.open_read_only_by_id(id).unwrap().info().unwrap();
    assert_eq!((info.name.as_str(), info.size), ("pvc-\u{fffd}", 8 << 20));
    let scanned = scan(&pool);
    assert_eq!(scanned["fine"].as_ref().unwrap(), &[]);
    assert_eq!(scanned[r"pvc-\xff"].as_ref().unwrap(), &[]);
    // The header's name cannot be told to C as text.
    assert_eq!(scanned[r"old-\xfe"].as_ref().unwrap_err().kind(), ErrorKind::InvalidName);
}

/// Makes that many images, named by their number.
fn create_many(pool: &Pool, count: usize) {
    std::thread::scope(|scope| {
        for first in 0..8 {
            let numbers = (first..count).step_by(8);
            scope.spawn(move || numbers.for_each(|number| create(pool, &format!("{number:04}"))));
        }
    });
}

#[test]
fn more_images_than_a_page_of_names_holds() {
    const IMAGES: usize = 1100;
    let pool = OwnPool::new();
    create_many(&pool, IMAGES);
    let ls = TestCluster::shared().rbd(["ls", pool.name().as_str()]);
    assert_eq!(ls.lines().count(), IMAGES);
    let entries = list(&pool);
    assert_eq!(entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>(), ls.lines().collect::<Vec<_>>());
    assert_eq!(entries.iter().map(|entry| entry.id.clone()).collect::<BTreeSet<_>>().len(), IMAGES);

    // The first and the last, and the two where the pages meet.
    let held = [0, 255, 256, IMAGES - 1].map(|number| {
        let image = pool.open(ImageName::try_from(&entries[number].name).unwrap()).unwrap();
        assert_eq!(image.id().unwrap(), entries[number].id);
        image
    });
    let _holder = TestCluster::shared().hold_image(&pool.spec("0256"));
    let scanned = scan(&pool);
    assert_eq!(scanned.len(), IMAGES);
    for image in &held {
        let name = image.to_string().rsplit('/').next().unwrap().to_owned();
        let watchers = scanned[&name].as_ref().unwrap();
        assert_eq!(watchers, &pool.list_watchers(image.header_object().unwrap()).unwrap());
        assert_eq!(watchers.len(), if name == "0256" { 2 } else { 1 });
    }
    let watched = scanned.values().filter(|watchers| !watchers.as_ref().unwrap().is_empty());
    assert_eq!(watched.count(), held.len());
}

/// The watchers of each image by its name.
fn scan(pool: &Pool) -> BTreeMap<String, Result<Vec<Watcher>>> {
    pool.scan_watchers().map(Result::unwrap).map(|image| (image.image.name.to_string(), image.watchers)).collect()
}

/// Results are not read ahead without bound, so that what is removed after the first one is not asked for yet.
#[test]
fn an_image_removed_during_the_scan_is_not_found_and_the_rest_is() {
    let pool = OwnPool::new();
    create_many(&pool, 40);
    let mut scan = pool.scan_watchers();
    assert!(scan.next().unwrap().unwrap().watchers.is_ok());
    pool.remove_image(&image("0039")).unwrap();
    let rest: Vec<_> = scan.map(Result::unwrap).collect();
    assert_eq!(rest.len(), 39);
    for ScannedImage { image, watchers, .. } in rest {
        match image.name.to_str().unwrap() {
            "0039" => assert_eq!(watchers.unwrap_err().kind(), ErrorKind::NotFound),
            name => assert_eq!(watchers.unwrap(), [], "{name}"),
        }
    }
}

#[test]
fn a_scan_that_is_dropped_lets_go_of_the_connection() {
    let pool = OwnPool::new();
    create_many(&pool, 40);
    let guard = Arc::new(());
    // SAFETY: a connection that the pool has, and that its guard keeps.
    let cluster = unsafe { Cluster::from_raw(pool.cluster().as_raw(), (pool.cluster(), Arc::clone(&guard))) };
    let mut scan = cluster.pool(pool.name().clone()).unwrap().scan_watchers();
    scan.next().unwrap().unwrap();
    drop((scan, cluster));
    poll_until(Duration::from_secs(20), || (Arc::strong_count(&guard) == 1).then_some(()));
}

/// Nobody takes results for as long as the deadline allows: after those that are ready comes an error, and then
/// nothing.
#[test]
fn the_deadline_is_that_of_the_whole_scan() {
    let pool = OwnPool::new();
    create_many(&pool, 40);
    let mut scan = pool.with_deadline(Duration::from_millis(500)).scan_watchers();
    poll_until(Duration::from_secs(20), || (scan.left() == Some(Duration::ZERO)).then_some(()));
    let error = scan.by_ref().take(39).find_map(Result::err).unwrap();
    assert_eq!((error.kind(), error.object()), (ErrorKind::TimedOut, Some(pool.name().as_str())));
    assert!(scan.next().is_none());
}

#[test]
fn a_scan_of_a_cluster_that_stops_answering_ends_with_the_deadline() {
    let cluster = PrivateCluster::start(&["--store", "memstore"]);
    let pool = OwnPool::on(&cluster);
    create_many(&pool, 40);
    let mut scan = pool.with_deadline(Duration::from_secs(2)).scan_watchers();
    scan.next().unwrap().unwrap();
    let paused = cluster.pause("osd.0");
    let start = Instant::now();
    let found: Vec<_> = scan.collect();
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(found.len() < 40);
    drop(paused);
    let error = found.into_iter().last().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}
