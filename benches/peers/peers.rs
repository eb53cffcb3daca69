//! The same calls by this library and by the package `ceph` (ceph-rust), in turns: `benches/run peers`.
//!
//! Theirs waits for ever. Ours is measured with the deadline that every call has by default, and without one.

#[path = "../interleaved/mod.rs"]
mod interleaved;

use ceph_rust::ceph::{IoCtx, Rados, connect_to_ceph};
use interleaved::{Peer, compare};
use rbd::{Cluster, Pool};
use serde_json::json;

const POOL: &str = "rbd";
const OBJECT: &str = "bench-peers";
/// Chance decides which threads of both sides serve a connection, and what that costs. It evens out over several.
const CONNECTIONS: usize = 5;
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const THEIRS: &str = "ceph-rust";
const OURS: &str = "rbd";
const OURS_UNBOUNDED: &str = "rbd, without a deadline";

fn main() {
    let directory = std::env::var("RBD_TEST_CLUSTER").expect("no test cluster: run benches/run peers");
    let conf = format!("{directory}/ceph.conf");
    let theirs = || connect_to_ceph("admin", &conf).unwrap();
    let builder = Cluster::builder().config_file(&conf);
    let ours = || builder.connect().unwrap();
    let unbounded = builder.clone().without_connect_deadline();

    compare(
        "connect",
        400,
        &mut [
            Peer::new(THEIRS, 1, theirs),
            Peer::new(OURS, 1, ours),
            Peer::new(OURS_UNBOUNDED, 1, || unbounded.connect().unwrap()),
        ],
    );
    compare(
        "connect and shut down",
        400,
        &mut [
            Peer::new(THEIRS, 1, || drop(theirs())),
            Peer::new(OURS, 1, || drop(ours())),
            Peer::new(OURS_UNBOUNDED, 1, || drop(unbounded.connect().unwrap())),
        ],
    );
    cluster(&theirs(), &ours());
    let (theirs, ours): (Vec<_>, Vec<_>) = (0..CONNECTIONS).map(|_| (theirs(), ours())).unzip();
    objects(&theirs, &ours);
}

fn cluster(theirs: &Rados, ours: &Cluster) {
    let unbounded = ours.without_deadline();
    compare(
        "fsid",
        400,
        &mut [
            Peer::new(THEIRS, 100, || theirs.rados_fsid().unwrap()),
            Peer::new(OURS, 100, || ours.fsid().unwrap()),
            Peer::new(OURS_UNBOUNDED, 100, || unbounded.fsid().unwrap()),
        ],
    );
    compare(
        "pool list",
        400,
        &mut [
            Peer::new(THEIRS, 100, || theirs.rados_pools().unwrap()),
            Peer::new(OURS, 100, || ours.pools().unwrap()),
            Peer::new(OURS_UNBOUNDED, 100, || unbounded.pools().unwrap()),
        ],
    );
    let command = json!({"prefix": "mon dump", "format": "json"});
    compare(
        "mon command",
        1000,
        &mut [
            Peer::new(THEIRS, 1, || theirs.ceph_mon_command_without_data(&command).unwrap()),
            Peer::new(OURS, 1, || ours.mon_command(&command).unwrap()),
            Peer::new(OURS_UNBOUNDED, 1, || unbounded.mon_command(&command).unwrap()),
        ],
    );
}

fn objects(theirs: &[Rados], ours: &[Cluster]) {
    let ios: Vec<_> = theirs.iter().map(|theirs| theirs.get_rados_ioctx(POOL).unwrap()).collect();
    let pools: Vec<_> = ours.iter().map(|ours| ours.pool(POOL).unwrap()).collect();
    let unbounded: Vec<_> = pools.iter().map(Pool::without_deadline).collect();
    pools[0].write_full(OBJECT, &vec![7; 4 * MIB]).unwrap();
    compare(
        "object stat",
        1000,
        &mut [
            Peer::new(THEIRS, 10, in_turn(&ios, |io| io.rados_object_stat(OBJECT).unwrap())),
            Peer::new(OURS, 10, in_turn(&pools, |pool| pool.stat(OBJECT).unwrap())),
            Peer::new(OURS_UNBOUNDED, 10, in_turn(&unbounded, |pool| pool.stat(OBJECT).unwrap())),
        ],
    );
    for (subject, length, rounds, batch) in
        [("object read, 4 KiB", 4 * KIB, 1000, 10), ("object read, 4 MiB", 4 * MIB, 200, 1)]
    {
        let their_read = |io: &IoCtx| {
            let mut buffer = Vec::with_capacity(length);
            io.rados_object_read(OBJECT, &mut buffer, 0).unwrap();
            buffer
        };
        let our_read = |pool: &Pool| pool.read(OBJECT, 0, length).unwrap();
        compare(
            subject,
            rounds,
            &mut [
                Peer::new(THEIRS, batch, in_turn(&ios, their_read)),
                Peer::new(OURS, batch, in_turn(&pools, our_read)),
                Peer::new(OURS_UNBOUNDED, batch, in_turn(&unbounded, our_read)),
            ],
        );
    }
    pools[0].remove(OBJECT).unwrap();
}

/// Makes each call on the next of some connections.
fn in_turn<H, T>(handles: &[H], call: impl Fn(&H) -> T) -> impl FnMut() -> T {
    let mut handles = handles.iter().cycle();
    move || call(handles.next().unwrap())
}
