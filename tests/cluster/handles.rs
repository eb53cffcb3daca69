//! Handles: ended once and in order, in whatever order they are dropped.

use std::any::Any;
use std::fs;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;

use rbd::feature::Features;
use rbd::image::ImageOptions;
use rbd::{Cluster, ErrorKind, Secret};

use super::library::{OwnPool, connect, image};
use super::support::{TestCluster, poll_until};
use super::{child, ledger};

fn own_pool_with_image() -> OwnPool {
    let pool = OwnPool::new();
    pool.create_image(&image("image"), 8 << 20, &ImageOptions::new()).unwrap();
    pool
}

/// All orders of `0..count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let Some(last) = count.checked_sub(1) else { return vec![vec![]] };
    let shorter = orders(last).into_iter();
    let longer = shorter.flat_map(|order| (0..=last).map(move |at| [&order[..at], &[last], &order[at..]].concat()));
    longer.collect()
}

#[test]
fn handles_may_be_dropped_in_every_order() {
    ledger::run(|| {
        let own = own_pool_with_image();
        let before = ledger::open_handles();
        for order in orders(4) {
            let cluster = connect(TestCluster::shared());
            let pool = cluster.pool(own.name().clone()).unwrap();
            let (reading, writing) = (pool.open_read_only("image").unwrap(), pool.open("image").unwrap());
            writing.write(0, b"data").unwrap();
            let handles: [Box<dyn Any>; 4] = [Box::new(cluster), Box::new(pool), Box::new(reading), Box::new(writing)];
            let mut handles = handles.map(Some);
            for at in &order {
                assert_ne!(ledger::open_handles(), before);
                handles[*at] = None;
            }
            assert_eq!(ledger::open_handles(), before, "{order:?}");
        }
        assert_eq!(orders(4).len(), 24);
    });
}

/// Case B54.
#[test]
fn what_is_made_from_a_handle_keeps_it_alive() {
    ledger::run(|| {
        let own = own_pool_with_image();
        let before = ledger::open_handles();
        let pool = connect(TestCluster::shared()).pool(own.name().clone()).unwrap();
        assert_eq!(pool.stat("none").unwrap_err().kind(), ErrorKind::NotFound);
        let image = connect(TestCluster::shared()).pool(own.name().clone()).unwrap().open("image").unwrap();
        let (namespace, images) = (pool.in_namespace(None).unwrap(), pool.images());
        let scan = pool.scan_watchers();
        drop(pool);
        assert_eq!(image.info().unwrap().size, 8 << 20);
        assert_eq!(image.pool().cluster().pool_id(own.name()).unwrap(), own.id());
        assert_eq!(namespace.stat("none").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!((images.count(), scan.count()), (1, 1));
        drop((image, namespace));
        // The threads of the scan end after it.
        poll_until(Duration::from_secs(10), || (ledger::open_handles() == before).then_some(()));
    });
}

/// Case B56.
#[test]
fn a_connection_is_shut_down_once_however_it_ends() {
    ledger::run(|| {
        let conf = TestCluster::shared().conf();
        let shut_down_by = |end: &dyn Fn()| {
            let before = (ledger::count("rados_create2"), ledger::count("rados_shutdown"));
            end();
            let after = (ledger::count("rados_create2"), ledger::count("rados_shutdown"));
            (after.0 - before.0, after.1 - before.1)
        };
        let fails = |call: &str, kind: ErrorKind| {
            ledger::fail(call, libc::EIO);
            let error = Cluster::builder().config_file(&conf).connect().unwrap_err();
            ledger::fail(call, 0);
            assert_eq!(error.kind(), kind, "{error}");
        };
        assert_eq!(shut_down_by(&|| fails("rados_create2", ErrorKind::Other)), (1, 0));
        assert_eq!(shut_down_by(&|| fails("rados_conf_read_file", ErrorKind::Other)), (1, 1));
        assert_eq!(shut_down_by(&|| fails("rados_connect", ErrorKind::InvalidInput)), (1, 1));
        assert_eq!(shut_down_by(&|| drop(connect(TestCluster::shared()))), (1, 1));
        assert_eq!(shut_down_by(&|| connect(TestCluster::shared()).disconnect().unwrap()), (1, 1));
        assert_eq!(
            shut_down_by(&|| {
                let cluster = connect(TestCluster::shared());
                assert_eq!(cluster.clone().disconnect().unwrap_err().kind(), ErrorKind::Busy);
                cluster.disconnect().unwrap();
            }),
            (1, 1)
        );
        let bad_option = Cluster::builder().config_file(&conf).option("frobnicate", "1");
        assert_eq!(shut_down_by(&|| drop(bad_option.connect().unwrap_err())), (1, 1));
        // One that passes its deadline is shut down when it comes back.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let mon_host = format!("v2:{}", silent.local_addr().unwrap());
        let dead =
            Cluster::builder().config_file(&conf).mon_host(&mon_host).connect_deadline(Duration::from_millis(100));
        let before = ledger::open_handles();
        assert_eq!(shut_down_by(&|| drop(dead.connect().unwrap_err())), (1, 0));
        poll_until(Duration::from_secs(10), || (ledger::open_handles() == before).then_some(()));
    });
}

#[test]
fn what_cannot_be_opened_leaves_nothing_behind() {
    ledger::run(|| {
        let own = own_pool_with_image();
        let before = ledger::open_handles();
        for (call, open) in [
            (
                "rados_ioctx_create2",
                (|own| own.cluster().pool(own.name().clone()).map(drop)) as fn(&OwnPool) -> rbd::Result<()>,
            ),
            ("rbd_open_read_only", |own| own.open_read_only("image").map(drop)),
            ("rbd_open", |own| own.open("image").map(drop)),
        ] {
            ledger::fail(call, libc::EBUSY);
            let failed = ledger::open_handles();
            assert_eq!(open(&own).unwrap_err().kind(), ErrorKind::Busy);
            ledger::fail(call, 0);
            open(&own).unwrap();
            // Only the call that was made to fail has nothing to be ended.
            assert_eq!(ledger::open_handles().iter().sum::<i64>(), failed.iter().sum::<i64>() + 1);
        }
        assert_eq!(ledger::open_handles().iter().sum::<i64>(), before.iter().sum::<i64>() + 3);
        assert_eq!(own.open("none").unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn the_last_handle_may_go_inside_a_callback() {
    ledger::run(|| {
        let own = OwnPool::new();
        let options = ImageOptions::new().features(Features::EXCLUSIVE_LOCK | Features::OBJECT_MAP).order(12);
        for name in ["rebuilt", "other"] {
            own.create_image(&image(name), 1 << 20, &options).unwrap();
        }
        let rebuilt = own.open("rebuilt").unwrap();
        let before = ledger::open_handles();
        let other = connect(TestCluster::shared()).pool(own.name().clone()).unwrap().open("other").unwrap();
        let other = Mutex::new(Some(other));
        let mut reports = 0;
        rebuilt
            .rebuild_object_map(|_, _| {
                reports += 1;
                other.lock().unwrap().take();
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_ne!(reports, 0);
        poll_until(Duration::from_secs(10), || (ledger::open_handles() == before).then_some(()));
        assert_eq!([ledger::thread("rbd_close"), ledger::thread("rados_shutdown")], ["rbd-closer", "rbd-closer"]);
    });
}

#[test]
fn closing_tells_of_clones_and_leaves_it_to_them() {
    ledger::run(|| {
        let own = own_pool_with_image();
        let image = own.open("image").unwrap();
        let clone = image.clone();
        let closed = ledger::count("rbd_close");
        assert_eq!(image.close().unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(ledger::count("rbd_close"), closed);
        clone.write(0, b"data").unwrap();
        clone.close().unwrap();
        assert_eq!(ledger::count("rbd_close"), closed + 1);
    });
}

/// Bytes that the process has from its allocator, and those that it has from the kernel.
fn memory() -> [usize; 2] {
    // SAFETY: it only reads the allocator's counters.
    let allocated = unsafe { libc::mallinfo2() };
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident: usize = resident.trim().trim_end_matches(" kB").parse().unwrap();
    [allocated.uordblks + allocated.hblkhd, resident * 1024]
}

#[test]
fn opening_and_closing_a_thousand_times_does_not_grow() {
    child::run(
        |_| (),
        || {
            let own = own_pool_with_image();
            let open = |n: usize| {
                let image = if n.is_multiple_of(2) { own.open("image") } else { own.open_read_only("image") };
                image.unwrap().close().unwrap();
                if n.is_multiple_of(10) {
                    let cluster = connect(TestCluster::shared());
                    cluster.pool("rbd").unwrap().open_read_only("none").unwrap_err();
                    cluster.disconnect().unwrap();
                }
            };
            (0..200).for_each(open);
            // A leak shows in every round. What else grows does not: each pool of another test's makes a map larger.
            let rounds = [(); 5].map(|()| {
                let before = memory();
                (0..200).for_each(open);
                let after = memory();
                [0, 1].map(|which| after[which].saturating_sub(before[which]))
            });
            for (which, most) in [16 << 10, 1 << 20].into_iter().enumerate() {
                assert!(rounds.iter().any(|grown| grown[which] < most), "{rounds:?}");
            }
        },
    );
}

#[test]
fn connecting_in_vain_does_not_grow() {
    child::run(
        |_| (),
        || {
            let wrong = Secret::new("AQBXKixnAAAAABAAdKGpUmWKuAuSvCcmaSbfXQ==");
            let wrong_key = Cluster::builder().config_file(TestCluster::shared().conf()).key(wrong);
            let no_monitor = Cluster::builder().no_config_file().mon_host("v2:127.0.0.1:1").option("key", "none");
            let connect = |_| {
                assert_eq!(wrong_key.connect().unwrap_err().kind(), ErrorKind::PermissionDenied);
                assert_eq!(no_monitor.connect().unwrap_err().kind(), ErrorKind::InvalidInput);
            };
            (0..50).for_each(connect);
            let before = memory();
            (0..200).for_each(connect);
            let after = memory();
            assert!(after[0] < before[0] + (100 << 10), "{before:?} {after:?}");
            assert!(after[1] < before[1] + (4 << 20), "{before:?} {after:?}");
        },
    );
}
