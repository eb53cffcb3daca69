//! What the other tests stand on does what they think it does. Only the real programs are asked.

use std::time::{Duration, Instant};

use super::support::{PrivateCluster, TestCluster, poll_until};

fn watchers(cluster: &TestCluster, spec: &str) -> usize {
    cluster.rbd_json(["status", spec])["watchers"].as_array().unwrap().len()
}

#[test]
fn an_image_is_there_until_its_guard_goes() {
    let cluster = TestCluster::shared();
    let image = cluster.image(&["--size", "8M"]);
    let name = image.name().to_owned();
    let is_listed = || cluster.rbd(["ls", "rbd"]).lines().any(|line| line == name);
    assert!(is_listed());
    drop(image);
    assert!(!is_listed());
}

#[test]
fn a_pool_is_there_until_its_guard_goes() {
    let cluster = TestCluster::shared();
    let pool = cluster.pool();
    let name = pool.name().to_owned();
    cluster.image_in(&name, &["--size", "8M"]);
    drop(pool);
    assert!(!cluster.rados(["lspools"]).lines().any(|line| line == name));
}

#[test]
fn a_held_image_has_one_watcher_until_the_holder_ends() {
    let cluster = TestCluster::shared();
    let image = cluster.image(&["--size", "8M"]);
    let holder = cluster.hold_image(image.spec());
    assert_eq!(watchers(cluster, image.spec()), 1);
    let line = cluster.rados(["--pool", "rbd", "listwatchers", &image.header()]);
    assert!(line.starts_with("watcher=127.0.0.1:0/"), "{line}");
    drop(holder);
    assert_eq!(watchers(cluster, image.spec()), 0);
}

#[test]
fn a_locked_image_has_one_watcher_that_owns_the_lock() {
    let cluster = TestCluster::shared();
    let image = cluster.image(&["--size", "8M"]);
    let holder = cluster.lock_image(image.spec());
    let watcher = cluster.rbd_json(["status", image.spec()])["watchers"][0].clone();
    let lock = cluster.rbd_json(["lock", "ls", image.spec()])[0].clone();
    assert_eq!(lock["address"], watcher["address"]);
    drop(holder);
    assert_eq!(watchers(cluster, image.spec()), 0);
    assert_eq!(cluster.rbd_json(["lock", "ls", image.spec()]), serde_json::json!([]));
}

#[test]
fn a_killed_holder_leaves_its_watch_behind() {
    let cluster = TestCluster::shared();
    let image = cluster.image(&["--size", "8M"]);
    cluster.hold_image(image.spec()).kill();
    assert_eq!(watchers(cluster, image.spec()), 1);
}

#[test]
fn a_private_cluster_keeps_its_images_when_its_daemons_are_killed() {
    let cluster = PrivateCluster::start(&[]);
    assert_ne!(cluster.mon_v1(), TestCluster::shared().mon_v1());
    let image = cluster.image(&["--size", "8M"]);
    cluster.kill("osd.0");
    cluster.kill("mon.a");
    cluster.restart();
    assert_eq!(cluster.rbd(["ls", "rbd"]).trim_end(), image.name());
}

#[test]
fn a_paused_mon_answers_again_once_it_goes_on() {
    let cluster = PrivateCluster::start(&["--store", "memstore"]);
    let paused = cluster.pause("mon.a");
    let start = Instant::now();
    let mut blocked = cluster.command("rados", ["lspools", "--client_mount_timeout=1"]);
    assert!(!blocked.output().unwrap().status.success());
    assert!(start.elapsed() >= Duration::from_secs(1));
    drop(paused);
    poll_until(Duration::from_secs(20), || cluster.rados(["lspools"]).contains("rbd").then_some(()));
}
