//! Tests against a real Ceph cluster: `tests/run cluster` starts one and runs them.

use std::process::Command;

#[test]
fn the_test_cluster_answers() {
    let dir = std::env::var("RBD_TEST_CLUSTER").expect("no test cluster: run `tests/run cluster`");
    let rbd = Command::new("rbd").args(["--conf", &format!("{dir}/ceph.conf"), "ls", "rbd"]).output().unwrap();
    assert!(rbd.status.success(), "{rbd:?}");
}
