//! Making, opening, reading, writing, closing and removing images.

use std::time::Duration;

use rbd::image::ImageOptions;
use rbd::name::NameError;
use rbd::{Details, Error, ErrorKind, Features, ImageName, Pool, PoolName, Result, SnapshotName};

use super::library::{OwnPool, connect, image, spec};
use super::support::TestCluster;

fn create(pool: &Pool, name: &str) {
    pool.create_image(&image(name), 10_000, &ImageOptions::new()).unwrap();
}

fn snapshot(pool: &Pool, image: &str, name: &str) -> SnapshotName {
    TestCluster::shared().rbd(["snap", "create", "--no-progress", &format!("{pool}/{image}@{name}")]);
    name.parse().unwrap()
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, errno: i32) -> Error {
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.errno()), (kind, Some(errno)), "{error}");
    error
}

#[test]
fn a_new_image_is_as_its_options_say() {
    let (pool, data) = (OwnPool::new(), OwnPool::new());
    let features = Features::LAYERING | Features::STRIPING | Features::EXCLUSIVE_LOCK;
    let options = ImageOptions::new().features(features).order(16).striping(4096, 3).data_pool(data.name());
    pool.create_image(&image("image"), 123_456, &options).unwrap();
    let info = TestCluster::shared().rbd_json(["info", &pool.spec("image")]);
    assert_eq!((&info["size"], &info["order"], &info["object_size"]), (&123_456.into(), &16.into(), &65_536.into()));
    assert_eq!((&info["stripe_unit"], &info["stripe_count"]), (&4096.into(), &3.into()));
    assert_eq!(info["data_pool"], data.name().as_str());
    let words: Vec<&str> = info["features"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words, ["layering", "striping", "exclusive-lock", "data-pool"]);

    // Without options it is as `rbd create` makes it.
    pool.create_image(&image("default"), 8 << 20, &ImageOptions::new()).unwrap();
    TestCluster::shared().rbd(["create", "--size", "8M", &pool.spec("by-rbd")]);
    let [ours, theirs] = ["default", "by-rbd"].map(|name| TestCluster::shared().rbd_json(["info", &pool.spec(name)]));
    for key in ["size", "order", "features", "flags", "format"] {
        assert_eq!(ours[key], theirs[key], "{key}");
    }
}

#[test]
fn what_librbd_refuses_to_make() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let new = ImageOptions::new;
    let make = |options| pool.create_image(&image("new"), 8 << 20, &options);
    let error = fails(pool.create_image(&image("image"), 1, &new()), ErrorKind::AlreadyExists, libc::EEXIST);
    assert_eq!((error.operation(), error.object()), ("create image", Some(pool.spec("image").as_str())));
    fails(make(new().order(11)), ErrorKind::InvalidInput, libc::EDOM);
    fails(make(new().order(26)), ErrorKind::InvalidInput, libc::EDOM);
    fails(make(new().features(Features::OBJECT_MAP)), ErrorKind::InvalidInput, libc::EINVAL);
    fails(make(new().features(Features::from_bits_retain(1 << 40))), ErrorKind::Unsupported, libc::ENOSYS);
    fails(make(new().striping(5000, 3)), ErrorKind::InvalidInput, libc::EINVAL);
    fails(make(new().data_pool(&PoolName::new("no-such-pool").unwrap())), ErrorKind::NotFound, libc::ENOENT);
    assert_eq!(pool.images().count(), 1);
}

#[test]
fn an_image_is_opened_by_name_id_snapshot_and_spec() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let before = snapshot(&pool, "image", "before");
    TestCluster::shared().rbd(["resize", "--no-progress", "--size", "1M", &pool.spec("image")]);
    let by_name = pool.open_read_only("image").unwrap();
    let id = by_name.id().unwrap().unwrap();
    let by_id = pool.open_read_only_by_id(&id).unwrap();
    let at_snapshot = pool.open_snapshot("image", &before).unwrap();
    let at_snapshot_by_id = pool.open_snapshot_by_id(&id, &before).unwrap();
    assert_eq!([&by_name, &by_id].map(|image| image.size().unwrap()), [1 << 20; 2]);
    assert_eq!([&at_snapshot, &at_snapshot_by_id].map(|image| image.size().unwrap()), [10_000; 2]);
    assert_eq!((at_snapshot.snapshot(), by_name.snapshot()), (Some(&before), None));
    assert_eq!(at_snapshot.to_string(), pool.spec("image@before"));
    assert_eq!(by_id.to_string(), pool.spec(&format!("(id {id})")));

    let cluster = pool.cluster();
    assert_eq!(cluster.open_read_only(&spec(&pool.spec("image"))).unwrap().size().unwrap(), 1 << 20);
    // A snapshot can only be read, whatever was asked for.
    let at_snapshot = cluster.open(&spec(&pool.spec("image@before"))).unwrap();
    fails(at_snapshot.write(0, b"data"), ErrorKind::ReadOnly, libc::EROFS);
    let writer = pool.open_by_id(&id).unwrap();
    writer.write(0, b"data").unwrap();
    writer.close().unwrap();

    // The id stays when the name changes.
    TestCluster::shared().rbd(["rename", &pool.spec("image"), &pool.spec("renamed")]);
    fails(pool.open("image"), ErrorKind::NotFound, libc::ENOENT);
    assert_eq!(pool.open_read_only_by_id(&id).unwrap().info().unwrap().name, "renamed");
}

#[test]
fn what_is_missing_is_not_found_and_the_error_names_it() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let error = fails(pool.open_read_only("no-such"), ErrorKind::NotFound, libc::ENOENT);
    assert_eq!(error.to_string(), format!("open image {}: not found (errno 2)", pool.spec("no-such")));
    let error = fails(pool.open_snapshot("image", &"gone".parse().unwrap()), ErrorKind::NotFound, libc::ENOENT);
    assert_eq!(error.object(), Some(pool.spec("image@gone").as_str()));
    fails(pool.open_by_id(&"fb236b8b4567".parse().unwrap()), ErrorKind::NotFound, libc::ENOENT);
    let error = fails(pool.cluster().open(&spec("no-such-pool/image")), ErrorKind::NotFound, libc::ENOENT);
    assert_eq!((error.operation(), error.object()), ("open pool", Some("no-such-pool")));
    let nowhere = pool.in_namespace(Some(&"nowhere".parse().unwrap())).unwrap();
    fails(nowhere.open("image"), ErrorKind::NotFound, libc::ENOENT);
    fails(pool.remove_image(&image("no-such")), ErrorKind::NotFound, libc::ENOENT);
}

/// What C would see as another name, or the OSD refuse, is refused here.
#[test]
fn names_that_cannot_be() {
    let pool = OwnPool::new();
    let cases = [
        (String::new(), NameError::Empty),
        ("image\0".into(), NameError::Contains('\0')),
        ("a/b".into(), NameError::Contains('/')),
        ("a@b".into(), NameError::Contains('@')),
        ("x".repeat(4096), NameError::TooLong { length: 4096, limit: 2041 }),
        ("x".repeat(2042), NameError::TooLong { length: 2042, limit: 2041 }),
    ];
    for (name, fault) in cases {
        let error = pool.open(name).unwrap_err();
        assert_eq!((error.kind(), error.errno()), (ErrorKind::InvalidName, None));
        assert_eq!(error.details(), &Details::Name(fault));
    }
    let pool_name = PoolName::try_from(&rbd::RawName::from(&b"kube\xff"[..]));
    assert_eq!(pool_name.unwrap_err().details(), &Details::Name(NameError::NotUtf8));
}

#[test]
fn names_that_are_unusual_and_can_be() {
    let pool = OwnPool::new();
    for name in [" ", "a b\t", "line\nbreak", "ünï 虫", "\u{7f}", "-", "--help", ".", "%s", &"x".repeat(2041)] {
        create(&pool, name);
        let opened = pool.open(name).unwrap();
        assert_eq!(opened.info().unwrap().name, name);
        opened.close().unwrap();
        let listed = pool.images().next().unwrap().unwrap();
        assert_eq!(ImageName::try_from(&listed.name).unwrap().as_str(), name);
        pool.remove_image(&image(name)).unwrap();
    }
    assert_eq!(pool.images().count(), 0);
    // There is no limit to a snapshot's name but the object's that it is kept in.
    create(&pool, "image");
    let long = snapshot(&pool, "image", &"s p".repeat(1000));
    assert_eq!(pool.open_snapshot("image", &long).unwrap().size().unwrap(), 10_000);
}

#[test]
fn what_is_written_is_read_by_others() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let writer = pool.open("image").unwrap();
    assert_eq!(writer.read(0, 10_000).unwrap(), [0; 10_000]);
    writer.write(4090, b"over two blocks").unwrap();
    assert_eq!(writer.read(4088, 8).unwrap(), b"\0\0over t");
    writer.flush().unwrap();
    let exported = TestCluster::shared().command("rbd", ["export", "--no-progress", &pool.spec("image"), "-"]);
    let exported = { exported }.output().unwrap().stdout;
    assert_eq!((exported.len(), &exported[4090..4105]), (10_000, &b"over two blocks"[..]));
    let reader = pool.open_read_only("image").unwrap();
    assert_eq!(reader.read(4090, 15).unwrap(), b"over two blocks");
    fails(reader.write(0, b"data"), ErrorKind::ReadOnly, libc::EROFS);
}

#[test]
fn the_end_of_the_image_is_the_end() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let image = pool.open("image").unwrap();
    image.write(9_996, b"last").unwrap();
    assert_eq!(image.read(9_996, 8).unwrap(), b"last");
    assert_eq!(image.read(9_000, usize::MAX / 2).unwrap().len(), 1_000);
    for offset in [10_000, 10_001, u64::MAX] {
        fails(image.read(offset, 1), ErrorKind::InvalidInput, libc::EINVAL);
        fails(image.write(offset, b"x"), ErrorKind::InvalidInput, libc::EINVAL);
    }
    // C writes what fits and says nothing of the rest.
    fails(image.write(9_998, b"too long"), ErrorKind::InvalidInput, libc::EINVAL);
    assert_eq!(image.read(0, 0).unwrap(), b"");
    image.write(0, b"").unwrap();
}

#[test]
fn a_lock_that_another_client_keeps_makes_writes_fail_and_one_taken_by_hand_makes_them_wait() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let image = pool.open("image").unwrap();
    let owner = TestCluster::shared().keep_lock_of_image(&pool.spec("image"));
    fails(image.write(0, b"data"), ErrorKind::ReadOnly, libc::EROFS);
    drop(owner);
    TestCluster::shared().rbd(["lock", "add", &pool.spec("image"), "by hand"]);
    let error = image.with_deadline(Duration::from_millis(500)).write(0, b"data").unwrap_err();
    assert_eq!((error.kind(), error.details()), (ErrorKind::TimedOut, &Details::StillRunning));
    assert!(error.hint().unwrap().contains("lock"), "{error}");
    // It goes on waiting, and so long the image cannot be closed.
    assert_eq!(image.close().unwrap_err().kind(), ErrorKind::Busy);
}

#[test]
fn what_others_change_reaches_a_writer_but_no_reader() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let (writer, reader) = (pool.open("image").unwrap(), pool.open_read_only("image").unwrap());
    let others = connect(TestCluster::shared()).pool(pool.name().clone()).unwrap().open("image").unwrap();
    TestCluster::shared().rbd(["resize", "--no-progress", "--size", "1M", &pool.spec("image")]);
    assert_eq!([&writer, &others, &reader].map(|image| image.size().unwrap()), [1 << 20, 1 << 20, 10_000]);
    assert_eq!(pool.open_read_only("image").unwrap().size().unwrap(), 1 << 20);
}

#[test]
fn an_image_is_closed_by_its_last_handle() {
    let pool = OwnPool::new();
    create(&pool, "image");
    let reader = pool.open_read_only("image").unwrap();
    let first = pool.open("image").unwrap();
    let second = first.with_deadline(Duration::from_secs(10));
    let error = first.close().unwrap_err();
    assert_eq!((error.kind(), error.object()), (ErrorKind::Busy, Some(pool.spec("image").as_str())));
    assert_eq!(second.size().unwrap(), 10_000);
    assert_eq!(reader.watchers().unwrap().len(), 1);
    second.close().unwrap();
    assert_eq!(reader.watchers().unwrap(), []);
}

#[test]
fn an_image_with_snapshots_is_not_removed() {
    let pool = OwnPool::new();
    create(&pool, "image");
    snapshot(&pool, "image", "kept");
    let error = fails(pool.remove_image(&image("image")), ErrorKind::Other, libc::ENOTEMPTY);
    assert!(error.to_string().ends_with("(errno 39); it has snapshots"), "{error}");
    TestCluster::shared().rbd(["snap", "rm", "--no-progress", &pool.spec("image@kept")]);
    pool.remove_image(&image("image")).unwrap();
    assert_eq!(pool.images().count(), 0);
}
