//! The object map is rebuilt, and a closure of ours is told how far it is.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rbd::feature::Cascade;
use rbd::image::{ImageFlags, ImageOptions};
use rbd::{ErrorKind, Features, Image, Pool};

use super::library::{OwnPool, connect, image};
use super::support::{TestCluster, poll_until};

const OBJECTS: u64 = 64;

/// An image with data, whose object map was enabled later and is flagged as invalid.
fn flagged_image(pool: &Pool) -> Image {
    let options = ImageOptions::new().features(Features::LAYERING | Features::EXCLUSIVE_LOCK).order(12);
    pool.create_image(&image("image"), OBJECTS << 12, &options).unwrap();
    let image = pool.open("image").unwrap();
    image.write(5 << 12, b"data").unwrap();
    image.enable_features(Features::OBJECT_MAP, Cascade::Yes).unwrap();
    assert_eq!(flags(&image), ImageFlags::all().bits() & 3);
    image
}

/// What `rbd info` says of the flags, as bits.
fn flags(image: &Image) -> u64 {
    let info = TestCluster::shared().rbd_json(["info", &image.to_string()]);
    let flags = info["flags"].as_array().unwrap().iter();
    flags.map(|flag| if flag == "object map invalid" { 1 } else { 2 }).sum()
}

#[test]
fn progress_is_told_and_the_flags_go() {
    let pool = OwnPool::new();
    let image = flagged_image(&pool);
    let mut seen = Vec::new();
    image
        .rebuild_object_map(|done, of| {
            seen.push((done, of));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen, (0..OBJECTS).map(|done| (done, OBJECTS)).collect::<Vec<_>>());
    assert_eq!(flags(&image), 0);
}

#[test]
fn a_closure_that_stops_it_and_one_that_panics_leave_the_image_usable() {
    let pool = OwnPool::new();
    let image = flagged_image(&pool);
    let error = image.rebuild_object_map(|_, _| ControlFlow::Break(())).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Cancelled, Some(libc::ECANCELED)));
    assert_eq!(error.object(), Some(pool.spec("image").as_str()));
    assert_ne!(flags(&image), 0);

    let mut calls = 0;
    let panicking = AssertUnwindSafe(|| {
        image.rebuild_object_map(|_, _| {
            calls += 1;
            panic!("in the middle of it")
        })
    });
    let panic = catch_unwind(panicking).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the middle of it"));
    assert_eq!(calls, 1);
    assert_ne!(flags(&image), 0);

    assert_eq!(image.read(5 << 12, 4).unwrap(), b"data");
    image.rebuild_object_map(|_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(flags(&image), 0);
    image.close().unwrap();
}

/// Closing waits for the very thread that calls the closure: it must not happen there.
#[test]
fn the_last_handle_of_another_image_and_connection_may_go_inside_the_closure() {
    let pool = OwnPool::new();
    let image = flagged_image(&pool);
    pool.create_image(&super::library::image("other"), 8 << 20, &ImageOptions::new()).unwrap();
    let of_this_connection = pool.open("other").unwrap();
    let connection = connect(TestCluster::shared());
    let of_another = connection.pool(pool.name().clone()).unwrap().open("other").unwrap();
    drop(connection);
    let watching = || pool.open_read_only("other").unwrap().watchers().unwrap().len();
    assert_eq!(watching(), 2);
    let mut handles = vec![of_this_connection, of_another];
    image
        .rebuild_object_map(|_, _| {
            handles.pop();
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((handles.len(), flags(&image)), (0, 0));
    poll_until(Duration::from_secs(20), || (watching() == 0).then_some(()));
}

#[test]
fn calls_inside_the_closure_are_refused_at_once_and_what_they_close_is_closed_elsewhere() {
    let pool = OwnPool::new();
    let image = flagged_image(&pool);
    pool.create_image(&super::library::image("other"), 8 << 20, &ImageOptions::new()).unwrap();
    let watching = || pool.open_read_only("other").unwrap().watchers().unwrap().len();
    let mut connection = Some(connect(TestCluster::shared()));
    let mut others = vec![pool.open("other").unwrap().without_deadline(), pool.open("other").unwrap()];
    assert_eq!(watching(), 2);
    let mut errors = Vec::new();
    image
        .rebuild_object_map(|_, _| {
            errors.extend(image.without_deadline().lockers().err());
            errors.extend(pool.open("other").err());
            errors.extend(image.rebuild_object_map(|_, _| ControlFlow::Continue(())).err());
            errors.extend(others.pop().and_then(|other| other.close().err()));
            errors.extend(connection.take().and_then(|connection| connection.disconnect().err()));
            ControlFlow::Continue(())
        })
        .unwrap();
    let calls = usize::try_from(OBJECTS).unwrap();
    assert_eq!(errors.len(), 3 * calls + 2 + 1);
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.hint().unwrap().contains("inside a callback"), "{error}");
    }
    assert_eq!(flags(&image), 0);
    poll_until(Duration::from_secs(20), || (watching() == 0).then_some(()));
    image.close().unwrap();
}

/// The owner of the lock does the work then, and tells of it.
#[test]
fn another_client_has_the_lock() {
    let pool = OwnPool::new();
    let image = flagged_image(&pool);
    let _owner = TestCluster::shared().lock_image(&pool.spec("image"));
    let mut calls = 0;
    image
        .rebuild_object_map(|done, of| {
            assert!(done <= of);
            calls += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(flags(&image), 0);
    assert_ne!(calls, 0);
}
