//! The same calls by this library and by the package `ceph` (ceph-rust), in turns: `benches/run peers`.
//!
//! Theirs waits for ever. Ours is measured with the deadline that every call has by default, and without one.

#[path = "../interleaved/mod.rs"]
mod interleaved;

use ceph_rust::ceph::{Rados, connect_to_ceph};
use interleaved::{Peer, compare};
use rbd::Cluster;
use serde_json::json;

const POOL: &str = "rbd";
const OBJECT: &str = "bench-peers";
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const THEIRS: &str = "ceph-rust";
const OURS: &str = "rbd";
const OURS_UNBOUNDED: &str = "rbd, without a deadline";

fn main() {
    let directory = std::env::var("RBD_TEST_CLUSTER").expect("no test cluster: run benches/run peers");
    let conf = format!("{directory}/ceph.conf");
    let theirs = || connect_to_ceph("admin", &conf).unwrap();
    let ours = || Cluster::builder().config_file(&conf).connect().unwrap();

    compare("connect", 200, &mut [Peer::new(THEIRS, 1, theirs), Peer::new(OURS, 1, ours)]);
    compare(
        "connect and shut down",
        200,
        &mut [Peer::new(THEIRS, 1, || drop(theirs())), Peer::new(OURS, 1, || drop(ours()))],
    );
    cluster(&theirs(), &ours());
    objects(&theirs(), &ours());
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

fn objects(theirs: &Rados, ours: &Cluster) {
    let io = theirs.get_rados_ioctx(POOL).unwrap();
    let pool = ours.pool(POOL).unwrap();
    let unbounded = pool.without_deadline();
    pool.write_full(OBJECT, &vec![7; 4 * MIB]).unwrap();
    compare(
        "object stat",
        1000,
        &mut [
            Peer::new(THEIRS, 10, || io.rados_object_stat(OBJECT).unwrap()),
            Peer::new(OURS, 10, || pool.stat(OBJECT).unwrap()),
            Peer::new(OURS_UNBOUNDED, 10, || unbounded.stat(OBJECT).unwrap()),
        ],
    );
    for (subject, length, rounds, batch) in
        [("object read, 4 KiB", 4 * KIB, 1000, 10), ("object read, 4 MiB", 4 * MIB, 200, 1)]
    {
        compare(
            subject,
            rounds,
            &mut [
                Peer::new(THEIRS, batch, || {
                    let mut buffer = Vec::with_capacity(length);
                    io.rados_object_read(OBJECT, &mut buffer, 0).unwrap();
                    buffer
                }),
                Peer::new(OURS, batch, || pool.read(OBJECT, 0, length).unwrap()),
                Peer::new(OURS_UNBOUNDED, batch, || unbounded.read(OBJECT, 0, length).unwrap()),
            ],
        );
    }
    pool.remove(OBJECT).unwrap();
}
