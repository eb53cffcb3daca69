//! Who has an image's lock, and breaking it: what `rbd lock` says and does.

use std::time::Duration;

use rbd::image::{BreakLock, ImageOptions};
use rbd::{Details, ErrorKind, Image, LockMode, Locker, Pool};

use super::library::{OwnPool, connect, image};
use super::support::{PrivateCluster, TestCluster};

fn create(pool: &Pool, name: &str) -> Image {
    pool.create_image(&image(name), 8 << 20, &ImageOptions::new()).unwrap();
    pool.open(name).unwrap()
}

/// The one locker that there is.
fn only(lockers: Vec<Locker>) -> Locker {
    assert_eq!(lockers.len(), 1, "{lockers:?}");
    lockers.into_iter().next().unwrap()
}

#[track_caller]
fn agrees_with_rbd_lock_ls(cluster: &TestCluster, image: &Image) {
    let theirs = cluster.rbd_json(["lock", "ls", &image.to_string()]);
    assert_eq!(serde_json::to_value(image.lockers().unwrap()).unwrap(), theirs);
}

/// Case B10: the cookie has a blank in it and is that of the owner's watch.
#[test]
fn an_automatic_lock_comes_with_the_first_write_and_goes_with_its_owner() {
    let pool = OwnPool::new();
    let image = create(&pool, "image");
    assert_eq!((image.lockers().unwrap(), image.lock_owners().unwrap()), (vec![], vec![]));
    let holder = TestCluster::shared().lock_image(&image.to_string());
    agrees_with_rbd_lock_ls(TestCluster::shared(), &image);
    let locker = only(image.lockers().unwrap());
    let watchers = image.watchers().unwrap();
    let watcher = watchers.iter().find(|watcher| watcher.client != pool.cluster().instance_id()).unwrap();
    assert_eq!(locker.client, format!("client.{}", watcher.client));
    assert_eq!(locker.cookie, format!("auto {}", watcher.cookie));
    assert_eq!((locker.address, locker.watch_cookie()), (watcher.address, Some(watcher.cookie)));
    assert!(locker.is_alive(&watchers));
    let owners = image.lock_owners().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!((owners[0].mode, owners[0].owner.as_str()), (LockMode::Exclusive, locker.address.to_string().as_str()));
    assert!(!image.is_lock_owner().unwrap());
    drop(holder);
    assert_eq!((image.lockers().unwrap(), image.lock_owners().unwrap()), (vec![], vec![]));

    image.write(0, b"data").unwrap();
    assert!(image.is_lock_owner().unwrap());
    assert_eq!(only(image.lockers().unwrap()).client, format!("client.{}", pool.cluster().instance_id()));
}

#[test]
fn lock_owners_are_told_on_a_read_only_handle_and_beside_a_lock_by_hand() {
    let pool = OwnPool::new();
    drop(create(&pool, "image"));
    let reader = pool.open_read_only("image").unwrap();
    assert_eq!(reader.lock_owners().unwrap(), []);
    let holder = TestCluster::shared().lock_image(&reader.to_string());
    assert_eq!(reader.lock_owners().unwrap()[0].owner, only(reader.lockers().unwrap()).address.to_string());
    drop(holder);
    TestCluster::shared().rbd(["lock", "add", &reader.to_string(), "by hand"]);
    assert_eq!((reader.lock_owners().unwrap(), reader.lockers().unwrap().len()), (vec![], 1));
}

/// They are more than the first buffers hold, and each has another owner.
#[test]
fn locks_taken_by_hand_by_several() {
    let pool = OwnPool::new();
    let image = create(&pool, "image");
    let cookies: Vec<String> = (0..4).map(|number| format!("{} {number}", "long cookie".repeat(10))).collect();
    for cookie in &cookies {
        TestCluster::shared().rbd(["lock", "add", "--shared", "tag", &image.to_string(), cookie]);
    }
    agrees_with_rbd_lock_ls(TestCluster::shared(), &image);
    let lockers = image.lockers().unwrap();
    let mut found: Vec<_> = lockers.iter().map(|locker| locker.cookie.clone()).collect();
    found.sort();
    assert_eq!(found, cookies);
    assert!(lockers.iter().all(|locker| locker.watch_cookie().is_none()));
    // Those who took them have ended.
    assert!(!lockers.iter().any(|locker| locker.is_alive(&image.watchers().unwrap())));
    image.break_lock(&lockers[1], BreakLock::OnlyIfDead).unwrap();
    agrees_with_rbd_lock_ls(TestCluster::shared(), &image);
    assert_eq!(image.lockers().unwrap().len(), 3);
}

#[test]
fn the_lock_of_a_living_owner_is_broken_only_on_demand_and_the_owner_is_blocklisted() {
    let pool = OwnPool::new();
    let image = create(&pool, "image");
    let theirs = connect(TestCluster::shared());
    let owner = theirs.pool(pool.name().clone()).unwrap().open("image").unwrap();
    owner.write(0, b"data").unwrap();
    let locker = only(image.lockers().unwrap());
    let error = image.break_lock(&locker, BreakLock::OnlyIfDead).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockHeld);
    let Details::LockOwners(owners) = error.details() else { panic!("{error:?}") };
    assert_eq!(owners[0].address(), Some(locker.address));
    assert_eq!(only(image.lockers().unwrap()), locker);
    owner.write(0, b"more").unwrap();
    owner.flush().unwrap();

    image.break_lock(&locker, BreakLock::EvenIfAlive).unwrap();
    assert_eq!(image.lockers().unwrap(), []);
    let blocklisted = pool.cluster().blocklist().unwrap();
    assert!(blocklisted.iter().any(|entry| entry.address == locker.address), "{blocklisted:?}");
    assert_eq!(owner.write(0, b"lost").and_then(|()| owner.flush()).unwrap_err().kind(), ErrorKind::Blocklisted);
    assert_eq!(owner.watchers().unwrap_err().kind(), ErrorKind::Blocklisted);
    assert_eq!(image.read(0, 4).unwrap(), b"more");
}

/// Whoever has the lock now must not suffer for what another list said.
#[test]
fn a_lock_that_is_no_longer_that_one_is_not_found_and_nobody_is_blocklisted() {
    let pool = OwnPool::new();
    let image = create(&pool, "image");
    let _owner = TestCluster::shared().lock_image(&image.to_string());
    let locker = only(image.lockers().unwrap());
    let other_cookie = Locker::new(locker.client.as_str(), "auto 1", locker.address);
    let other_client = Locker::new("client.1", locker.cookie.as_str(), locker.address);
    for changed in [other_cookie, other_client] {
        for whose in [BreakLock::OnlyIfDead, BreakLock::EvenIfAlive] {
            let error = image.break_lock(&changed, whose).unwrap_err();
            assert_eq!((error.kind(), error.errno()), (ErrorKind::NotFound, Some(libc::ENOENT)));
        }
    }
    assert_eq!(only(image.lockers().unwrap()), locker);
    assert!(pool.cluster().blocklist().unwrap().iter().all(|entry| entry.address != locker.address));
}

/// How long a dead owner is taken for alive is the OSD's choice.
#[test]
fn the_lock_of_a_dead_owner_is_broken_once_its_watch_is_over() {
    let cluster = PrivateCluster::start(&["--store", "memstore"]);
    cluster.ceph(["config", "set", "osd", "osd_client_watch_timeout", "3"]);
    let pool = OwnPool::on(&cluster);
    let image = create(&pool, "image");
    cluster.lock_image(&image.to_string()).kill();
    let locker = only(image.lockers().unwrap());
    let own = pool.cluster().instance_id();
    let watchers = pool.list_watchers(image.header_object().unwrap()).unwrap();
    let dead = watchers.iter().find(|watcher| watcher.client != own).unwrap();
    assert_eq!(dead.timeout, Some(Duration::from_secs(3)));
    assert!(locker.is_alive(&watchers));
    assert_eq!(image.break_lock(&locker, BreakLock::OnlyIfDead).unwrap_err().kind(), ErrorKind::LockHeld);

    image.wait_until_unwatched(|watcher| watcher.client == own, Duration::from_secs(20)).unwrap();
    assert_eq!(only(image.lockers().unwrap()), locker);
    assert!(!locker.is_alive(&image.watchers().unwrap()));
    image.break_lock(&locker, BreakLock::OnlyIfDead).unwrap();
    assert_eq!(image.lockers().unwrap(), []);
    assert!(pool.cluster().blocklist().unwrap().iter().any(|entry| entry.address == locker.address));
    image.write(0, b"data").unwrap();
}
