//! One handle used by many threads at once, each of which checks its own results.

use std::thread;

use rbd::image::ImageOptions;
use rbd::{ErrorKind, Image, Pool};
use serde_json::{Value, json};

use super::library::{OwnPool, connect, image};
use super::support::TestCluster;

const THREADS: usize = 64;

/// Runs `work` in all threads at once.
fn in_threads(work: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for number in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(number));
        }
    });
}

#[test]
fn a_connection_serves_many_threads() {
    let pool = OwnPool::new();
    pool.create_image(&image("image"), 8 << 20, &ImageOptions::new()).unwrap();
    let cluster = pool.cluster();
    let (fsid, id) = (cluster.fsid().unwrap(), cluster.instance_id());
    in_threads(|number| {
        for round in 0..10 {
            use_objects(&pool, number, round);
            assert_eq!(cluster.fsid().unwrap(), fsid);
            assert_eq!(cluster.instance_id(), id);
            assert_eq!(cluster.pool_id(pool.name()).unwrap(), pool.id());
            assert!(cluster.pools().unwrap().iter().any(|name| name.to_str() == Some(pool.name().as_str())));
            assert_eq!(cluster.config("rbd_default_pool").unwrap(), "rbd");
        }
        // The slower ones.
        let status = cluster.mon_command(&json!({"prefix": "osd dump", "format": "json"})).unwrap();
        assert_eq!(status.json::<Value>().unwrap()["fsid"], fsid.to_string());
        assert_eq!(cluster.pool("none").unwrap_err().kind(), ErrorKind::NotFound);
        let opened = cluster.pool(pool.name().clone()).unwrap().open_read_only("image").unwrap();
        assert_eq!(opened.info().unwrap().size, 8 << 20);
        assert_eq!(pool.images().count(), 1);
    });
    assert_eq!(connect(TestCluster::shared()).pool(pool.name().clone()).unwrap().images().count(), 1);
}

/// Everything that can be done to an object, one of the thread's own.
fn use_objects(pool: &Pool, number: usize, round: usize) {
    let name = format!("object {number}");
    let data = format!("{number} in round {round}").into_bytes();
    pool.write_full(&name, &data).unwrap();
    pool.set_xattr(&name, "round", &data).unwrap();
    assert_eq!(pool.stat(&name).unwrap().size, data.len() as u64);
    assert_eq!(pool.read(&name, 0, 100).unwrap(), data);
    assert_eq!(pool.xattr(&name, "round").unwrap(), data);
    assert_eq!(pool.xattrs(&name).unwrap().len(), 1);
    assert!(pool.omap(&name, b"", 10).unwrap().entries.is_empty());
    assert_eq!(pool.list_watchers(&name).unwrap(), []);
    if round % 2 == 1 {
        pool.remove(&name).unwrap();
        assert_eq!(pool.stat(&name).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn an_image_serves_many_threads() {
    const BLOCK: usize = 4096;
    let pool = OwnPool::new();
    pool.create_image(&image("image"), 8 << 20, &ImageOptions::new()).unwrap();
    let shared = pool.open("image").unwrap();
    let content = |number: usize, round: usize| vec![(number * 3 + round) as u8; BLOCK];
    in_threads(|number| {
        let offset = (number * BLOCK) as u64;
        for round in 0..10 {
            let data = content(number, round);
            shared.write(offset, &data).unwrap();
            assert!(shared.read(offset, BLOCK).unwrap() == data);
        }
        shared.flush().unwrap();
        assert_eq!(shared.info().unwrap().size, 8 << 20);
        assert_eq!(shared.watchers().unwrap().len(), 1);
        assert_eq!(shared.lock_owners().unwrap().len(), 1);
        assert_eq!(shared.clone().to_string(), shared.to_string());
    });
    shared.close().unwrap();
    let written = pool.open_read_only("image").and_then(|image: Image| image.read(0, THREADS * BLOCK)).unwrap();
    assert!((0..THREADS).all(|number| written[number * BLOCK..][..BLOCK] == content(number, 9)));
}
