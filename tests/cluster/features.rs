//! Features are enabled and disabled on real images, and the real `rbd` says what became of it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rbd::feature::{Cascade, FeaturePlan, FeatureStep};
use rbd::image::{BreakLock, ImageOptions};
use rbd::{Details, Error, ErrorKind, Features, Image, Pool};

use super::library::{OwnPool, image};
use super::support::{PrivateCluster, TestCluster, poll_until};

const DEFAULT: Features = Features::from_bits_retain(0x3d);
const MAPS: Features = Features::OBJECT_MAP.union(Features::FAST_DIFF);

/// 64 objects of 4 KiB.
fn create(pool: &Pool, name: &str, features: Features) -> Image {
    let options = ImageOptions::new().features(features).order(12);
    pool.create_image(&image(name), 64 << 12, &options).unwrap();
    pool.open(name).unwrap()
}

/// The features and flags that `rbd info` prints.
fn seen_by_rbd(image: &Image) -> (Features, Vec<String>) {
    let info = TestCluster::shared().rbd_json(["info", &image.to_string()]);
    let words = |key: &str| -> Vec<String> {
        info[key].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    (words("features").join(",").parse().unwrap(), words("flags"))
}

fn steps(plan: &FeaturePlan) -> Vec<Features> {
    plan.steps().iter().map(|step| step.features).collect()
}

#[track_caller]
fn refused(error: &Error, kind: ErrorKind, features: Features) {
    assert_eq!((error.kind(), error.details()), (kind, &Details::Features(features)), "{error}");
}

/// Case B45.
#[test]
fn exclusive_lock_is_disabled_after_what_depends_on_it_or_not_at_all() {
    let pool = OwnPool::new();
    let image = create(&pool, "image", DEFAULT | Features::JOURNALING);
    let error = image.disable_features(Features::EXCLUSIVE_LOCK, Cascade::No).unwrap_err();
    refused(&error, ErrorKind::FeatureDependency, MAPS | Features::JOURNALING);
    assert!(error.to_string().contains(&pool.spec("image")), "{error}");
    assert_eq!(seen_by_rbd(&image).0, DEFAULT | Features::JOURNALING);

    let plan = FeaturePlan::disable(image.features().unwrap(), Features::EXCLUSIVE_LOCK, Cascade::Yes).unwrap();
    let mut done = Vec::new();
    image.apply(&plan, |report| done.push((report.step, seen_by_rbd(&image).0))).unwrap();
    let reported: Vec<FeatureStep> = done.iter().map(|(step, _)| *step).collect();
    assert_eq!(reported, plan.steps());
    // After each step, the features that are left.
    let (layering, lock) = (Features::LAYERING | Features::DEEP_FLATTEN, Features::EXCLUSIVE_LOCK);
    let left: Vec<Features> = done.into_iter().map(|(_, left)| left).collect();
    assert_eq!(left, [layering | lock | Features::JOURNALING, layering | lock, layering]);
    assert_eq!(image.features().unwrap(), layering);
}

#[test]
fn what_is_as_wanted_already_is_no_change() {
    let pool = OwnPool::new();
    let image = create(&pool, "image", DEFAULT);
    let plan = image.disable_features(Features::JOURNALING, Cascade::No).unwrap();
    assert_eq!((plan.steps(), plan.already()), (&[][..], Features::JOURNALING));
    let plan = image.enable_features(DEFAULT, Cascade::No).unwrap();
    assert_eq!((plan.steps(), plan.already()), (&[][..], DEFAULT));

    // Another program carries out the same plan just before.
    let plan = FeaturePlan::disable(image.features().unwrap(), Features::OBJECT_MAP, Cascade::Yes).unwrap();
    TestCluster::shared().rbd(["feature", "disable", &image.to_string(), "object-map"]);
    image.apply(&plan, |_| ()).unwrap();
    assert_eq!(seen_by_rbd(&image).0, DEFAULT.difference(MAPS));
}

#[test]
fn what_was_disabled_comes_back_but_deep_flatten() {
    let pool = OwnPool::new();
    let image = create(&pool, "image", DEFAULT);
    let all = Features::EXCLUSIVE_LOCK | Features::DEEP_FLATTEN;
    let plan = image.disable_features(all, Cascade::Yes).unwrap();
    assert_eq!((plan.implied(), plan.irreversible()), (MAPS, Features::DEEP_FLATTEN));
    assert_eq!(seen_by_rbd(&image).0, Features::LAYERING);

    let error = image.enable_features(Features::DEEP_FLATTEN, Cascade::Yes).unwrap_err();
    refused(&error, ErrorKind::FeatureImmutable, Features::DEEP_FLATTEN);
    let error = image.enable_features(Features::OBJECT_MAP, Cascade::No).unwrap_err();
    refused(&error, ErrorKind::FeatureDependency, Features::FAST_DIFF | Features::EXCLUSIVE_LOCK);
    let plan = image.enable_features(Features::OBJECT_MAP | Features::JOURNALING, Cascade::Yes).unwrap();
    assert_eq!(steps(&plan), [Features::EXCLUSIVE_LOCK, MAPS, Features::JOURNALING]);
    assert!(plan.needs_rebuild());
    let (features, flags) = seen_by_rbd(&image);
    assert_eq!(features, Features::LAYERING | Features::EXCLUSIVE_LOCK | MAPS | Features::JOURNALING);
    assert_eq!(flags, ["object map invalid", "fast diff invalid"]);
}

#[test]
fn features_that_never_change() {
    let (pool, data) = (OwnPool::new(), OwnPool::new());
    let options = ImageOptions::new().features(DEFAULT | Features::STRIPING).striping(4096, 4).data_pool(data.name());
    pool.create_image(&image("image"), 8 << 20, &options).unwrap();
    let image = pool.open("image").unwrap();
    let fixed = Features::LAYERING | Features::STRIPING | Features::DATA_POOL;
    assert_eq!(seen_by_rbd(&image).0, DEFAULT | fixed);
    let error = image.disable_features(fixed | Features::OBJECT_MAP, Cascade::Yes).unwrap_err();
    refused(&error, ErrorKind::FeatureImmutable, fixed);
    let error = FeaturePlan::mappable_by(image.features().unwrap(), Features::LAYERING).unwrap_err();
    refused(&error, ErrorKind::FeatureImmutable, Features::STRIPING | Features::DATA_POOL);
    assert_eq!(seen_by_rbd(&image).0, DEFAULT | fixed);
}

#[test]
fn an_image_becomes_mappable_by_a_kernel_with_layering_only() {
    let pool = OwnPool::new();
    let image = create(&pool, "image", DEFAULT | Features::JOURNALING);
    let kernel = Features::parse_kernel_mask("0x1\n").unwrap();
    let plan = FeaturePlan::mappable_by(image.features().unwrap(), kernel).unwrap();
    image.apply(&plan, |_| ()).unwrap();
    assert_eq!(seen_by_rbd(&image).0, Features::LAYERING);
    assert!(image.features().unwrap().unsupported_by(kernel).is_empty());
}

#[test]
fn a_handle_that_is_open_to_read_changes_nothing() {
    let pool = OwnPool::new();
    let image = create(&pool, "image", DEFAULT);
    // Somebody's lock is not what is in the way.
    image.write(0, b"data").unwrap();
    let reader = pool.open_read_only("image").unwrap();
    let error = reader.disable_features(Features::OBJECT_MAP, Cascade::Yes).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::ReadOnly, Some(libc::EROFS)));
    assert_eq!(error.hint(), Some("this handle is open read-only"));
    assert_eq!(reader.rebuild_object_map(|_, _| ControlFlow::Continue(())).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(seen_by_rbd(&image).0, DEFAULT);
}

/// Case B48: the lock of `owner` is in the way, and stays.
#[track_caller]
fn held_by(error: &Error, owner: &str) {
    assert_eq!(error.kind(), ErrorKind::LockHeld, "{error:#}");
    let Details::LockOwners(owners) = error.details() else { panic!("{error:?}") };
    assert_eq!(owners.iter().map(|owner| owner.owner.as_str()).collect::<Vec<_>>(), [owner]);
    assert!(error.to_string().contains(owner), "{error}");
}

/// The address in `rbd lock ls`, of the one lock that there is.
fn lock_of(image: &Image) -> String {
    let locks = TestCluster::shared().rbd_json(["lock", "ls", &image.to_string()]);
    assert_eq!(locks.as_array().unwrap().len(), 1, "{locks}");
    locks[0]["address"].as_str().unwrap().to_owned()
}

#[test]
fn a_lock_taken_by_hand_is_in_the_way() {
    let pool = OwnPool::new();
    let image = create(&pool, "image", DEFAULT);
    TestCluster::shared().rbd(["lock", "add", &pool.spec("image"), "by hand"]);
    let error = image.disable_features(Features::OBJECT_MAP, Cascade::Yes).unwrap_err();
    held_by(&error, &lock_of(&image));
    assert_eq!(error.errno(), Some(libc::EROFS));
    assert_eq!(seen_by_rbd(&image).0, DEFAULT);
    let locker = image.lockers().unwrap().pop().unwrap();
    image.break_lock(&locker, BreakLock::OnlyIfDead).unwrap();
    image.disable_features(Features::OBJECT_MAP, Cascade::Yes).unwrap();
    assert_eq!(seen_by_rbd(&image).0, DEFAULT.difference(MAPS));
}

/// librbd has the owner carry out the change.
#[test]
fn a_living_owner_is_not_in_the_way_even_if_it_keeps_its_lock() {
    let pool = OwnPool::new();
    let image = create(&pool, "image", DEFAULT);
    let _owner = TestCluster::shared().keep_lock_of_image(&pool.spec("image"));
    let owner = lock_of(&image);
    image.disable_features(Features::OBJECT_MAP, Cascade::Yes).unwrap();
    assert_eq!(seen_by_rbd(&image).0, DEFAULT.difference(MAPS));
    assert_eq!(lock_of(&image), owner);
}

#[test]
fn an_owner_that_hands_its_lock_over_is_not_in_the_way() {
    let pool = OwnPool::new();
    let image = create(&pool, "image", DEFAULT);
    let _owner = TestCluster::shared().lock_image(&pool.spec("image"));
    image.disable_features(Features::EXCLUSIVE_LOCK, Cascade::Yes).unwrap();
    assert_eq!(seen_by_rbd(&image).0, Features::LAYERING | Features::DEEP_FLATTEN);
}

/// Alive or not: one that does not answer is in the way as long as its watch lasts, and the deadline holds.
#[test]
fn an_owner_that_does_not_answer_is_in_the_way() {
    let pool = OwnPool::new();
    let image = create(&pool, "image", DEFAULT);
    TestCluster::shared().lock_image(&pool.spec("image")).kill();
    let owner = lock_of(&image);
    let start = Instant::now();
    let quick = image.with_deadline(Duration::from_secs(2));
    let error = quick.disable_features(Features::OBJECT_MAP, Cascade::Yes).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    held_by(&error, &owner);
    assert!(error.hint().unwrap().contains("may still take effect"), "{error}");
    assert_eq!(seen_by_rbd(&image).0, DEFAULT);
}

/// Somebody has the lock, but it is the cluster that does not answer.
#[test]
fn an_osd_that_does_not_answer_is_no_lock_that_is_held() {
    let private = PrivateCluster::start(&["--store", "memstore"]);
    let pool = OwnPool::on(&private);
    let image = create(&pool, "image", DEFAULT);
    private.lock_image(&pool.spec("image")).kill();
    let owner = image.lockers().unwrap().pop().unwrap().address.to_string();
    let plan = FeaturePlan::disable(DEFAULT, Features::OBJECT_MAP, Cascade::Yes).unwrap();
    let start = Instant::now();
    let change = std::thread::spawn({
        let image = image.with_deadline(Duration::from_secs(5));
        move || image.apply(&plan, |_| ())
    });
    // By then it waits for the owner, whose watch lasts longer.
    poll_until(Duration::from_secs(4), || (start.elapsed() > Duration::from_secs(2)).then_some(()));
    let paused = private.pause("osd.0");
    let error = change.join().unwrap().unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    drop(paused);
    assert_eq!((error.kind(), error.details()), (ErrorKind::TimedOut, &Details::StillRunning), "{error}");
    assert!(error.hint().unwrap().ends_with(&format!("the lock was held by {owner}")), "{error}");
}
