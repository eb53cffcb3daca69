//! A process made by `fork` has the handles of its parent, and none of the libraries' threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rbd::image::ImageOptions;
use rbd::{ErrorKind, Result};
use serde_json::json;

use super::child;
use super::library::{OwnPool, connect, image};
use super::support::{TestCluster, poll_until};

/// Runs `body` in a fork of this process, which then ends as `end` does. Gives its status, once it has ended.
fn in_fork(body: impl FnOnce(), end: fn(i32) -> !) -> i32 {
    // SAFETY: the child uses what `fork` leaves usable: its memory, the allocator, and no other thread.
    let pid = unsafe { libc::fork() };
    assert_ne!(pid, -1);
    if pid == 0 {
        let failed = catch_unwind(AssertUnwindSafe(body)).is_err();
        end(i32::from(failed));
    }
    poll_until(Duration::from_secs(20), || {
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        let ended = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
        (ended == pid).then_some(status)
    })
}

fn exit_at_once(code: i32) -> ! {
    // SAFETY: it ends this process.
    unsafe { libc::_exit(code) }
}

#[test]
fn in_a_fork_every_call_says_that_it_is_not_connected() {
    child::run(
        |_| (),
        || {
            for end in [exit_at_once as fn(i32) -> !, |code| std::process::exit(code)] {
                let own = OwnPool::new();
                own.create_image(&image("image"), 8 << 20, &ImageOptions::new()).unwrap();
                let cluster = connect(TestCluster::shared());
                let pool = cluster.pool(own.name().clone()).unwrap();
                let opened = pool.open("image").unwrap();
                opened.write(0, b"before").unwrap();

                let mut handles = Some((cluster, pool, opened));
                let status = in_fork(
                    || {
                        let start = Instant::now();
                        let (cluster, pool, opened) = handles.take().unwrap();
                        let refused: [Result<()>; 12] = [
                            cluster.fsid().map(drop),
                            cluster.addresses().map(drop),
                            cluster.config("rbd_default_pool").map(drop),
                            cluster.entity().map(drop),
                            cluster.pools().map(drop),
                            cluster.pool("rbd").map(drop),
                            cluster.mon_command(&json!({"prefix": "version"})).map(drop),
                            pool.stat("o").map(drop),
                            pool.images().next().unwrap().map(drop),
                            opened.read(0, 6).map(drop),
                            opened.flush(),
                            opened.clone().without_deadline().info().map(drop),
                        ];
                        for error in refused.map(Result::unwrap_err) {
                            assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
                            assert!(error.hint().is_some_and(|hint| hint.contains("fork")));
                        }
                        assert_eq!(opened.close().unwrap_err().kind(), ErrorKind::NotConnected);
                        drop(pool);
                        assert_ne!(cluster.instance_id(), 0);
                        assert_eq!(cluster.disconnect().unwrap_err().kind(), ErrorKind::NotConnected);
                        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());

                        // A connection of its own works.
                        let again = connect(TestCluster::shared()).pool(own.name().clone()).unwrap();
                        assert_eq!(again.open_read_only("image").unwrap().read(0, 6).unwrap(), b"before");
                    },
                    end,
                );
                assert_eq!(status, 0);

                // The parent, whose memory is its own, goes on.
                let (cluster, pool, opened) = handles.unwrap();
                opened.write(0, b"parent").unwrap();
                opened.close().unwrap();
                assert_eq!(pool.open_read_only("image").unwrap().read(0, 6).unwrap(), b"parent");
                drop(pool);
                cluster.disconnect().unwrap();
            }
        },
    );
}
