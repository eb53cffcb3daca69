//! One `rados_t` made by the package `ceph` (ceph-rust) serves this library too: `tests/run cluster` runs this.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use ceph_rust::ceph::{Rados, connect_to_ceph};
use rbd::image::ImageOptions;
use rbd::{Cluster, ImageName};

/// A connection of theirs, which shuts itself down when it is dropped.
struct Theirs {
    rados: Rados,
    is_open: Arc<AtomicBool>,
}

// SAFETY: librados lets any thread use and shut down a `rados_t`; theirs holds nothing else.
unsafe impl Send for Theirs {}
// SAFETY: as above.
unsafe impl Sync for Theirs {}

impl Theirs {
    fn connect() -> (Self, Arc<AtomicBool>) {
        let directory = std::env::var("RBD_TEST_CLUSTER").expect("no test cluster: run `tests/run cluster`");
        let rados = connect_to_ceph("admin", &format!("{directory}/ceph.conf")).unwrap();
        let is_open = Arc::new(AtomicBool::new(true));
        (Self { rados, is_open: Arc::clone(&is_open) }, is_open)
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        // The field `rados` is dropped, and so shut down, right after this.
        assert!(self.is_open.swap(false, Ordering::SeqCst));
    }
}

fn ours(theirs: &Arc<Theirs>) -> Cluster {
    // SAFETY: connected, and kept so by the reference that goes with it.
    unsafe { Cluster::from_raw(*theirs.rados.inner(), Arc::clone(theirs)) }
}

#[test]
fn both_libraries_use_one_connection_in_turns() {
    let (theirs, _) = Theirs::connect();
    let theirs = Arc::new(theirs);
    let cluster = ours(&theirs);
    assert_eq!(cluster.as_raw(), *theirs.rados.inner());
    assert_eq!(cluster.fsid().unwrap().to_string(), theirs.rados.rados_fsid().unwrap().to_string());

    let pool = cluster.pool("rbd").unwrap();
    let io = theirs.rados.get_rados_ioctx("rbd").unwrap();
    pool.write_full("shared", b"ours").unwrap();
    let mut read = Vec::with_capacity(16);
    io.rados_object_read("shared", &mut read, 0).unwrap();
    assert_eq!(read, b"ours");
    io.rados_object_write_full("shared", b"theirs").unwrap();
    assert_eq!(pool.read("shared", 0, 16).unwrap(), b"theirs");
    pool.remove("shared").unwrap();
}

#[test]
fn the_guard_is_dropped_after_the_last_use_whatever_handle_that_is() {
    let (theirs, is_open) = Theirs::connect();
    let theirs = Arc::new(theirs);
    let guarded: Weak<Theirs> = Arc::downgrade(&theirs);
    let cluster = ours(&theirs);
    drop(theirs);

    let pool = cluster.pool("rbd").unwrap();
    let name = ImageName::new(format!("shared-{}", std::process::id())).unwrap();
    pool.create_image(&name, 1 << 20, &ImageOptions::new()).unwrap();
    let image = pool.open(name.clone()).unwrap();
    let id = cluster.instance_id();
    drop(cluster);
    drop(pool);
    // The image is all that is left, and works.
    let watchers = image.watchers().unwrap();
    assert_eq!(watchers.iter().map(|watcher| watcher.client).collect::<Vec<_>>(), [id]);
    let pool = image.pool().clone();
    image.close().unwrap();
    pool.remove_image(&name).unwrap();
    assert!(is_open.load(Ordering::SeqCst) && guarded.upgrade().is_some());
    drop(pool);
    assert!(!is_open.load(Ordering::SeqCst) && guarded.upgrade().is_none());
}

#[test]
fn a_connection_that_is_theirs_is_not_shut_down_with_ours() {
    let (theirs, is_open) = Theirs::connect();
    let theirs = Arc::new(theirs);
    ours(&theirs).disconnect().unwrap();
    assert!(is_open.load(Ordering::SeqCst));
    assert!(!theirs.rados.rados_pools().unwrap().is_empty());
}
