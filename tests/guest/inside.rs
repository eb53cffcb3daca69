//! A cluster inside the guest, where the host's network does not reach: on IPv6, in a network namespace of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rbd::ErrorKind;
use rbd::config::Config;
use rbd::krbd::{MapRequest, UnmapOptions};

use crate::support::*;

/// A cluster at `[::1]` in a network namespace; both go with it.
struct Inside {
    namespace: Child,
    directory: tempfile::TempDir,
}

impl Inside {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = "ip link set lo up && tests/cluster/dev-cluster start \"$1\" --addr ::1 --store memstore >&2 && \
                      rbd -c \"$1/ceph.conf\" create --size 64M rbd/six && echo ready && read line; \
                      tests/cluster/dev-cluster destroy \"$1\"";
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script, "cluster"]).arg(directory.path().join("cluster"));
        let mut namespace = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(namespace.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { namespace, directory }
    }

    fn conf(&self) -> String {
        format!("{}/cluster/ceph.conf", self.directory.path().display())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        drop(self.namespace.stdin.take());
        let _ = self.namespace.wait();
    }
}

#[test]
fn an_ipv6_cluster_is_reached_from_the_network_namespace_that_it_is_in() {
    krbd();
    let cluster = Inside::new();
    let config = Config::read(cluster.conf()).unwrap();
    let monitors = config.monitors().unwrap();
    assert!(monitors.to_string().contains("[::1]"), "{monitors}");

    // The kernel takes the network namespace of whoever maps; here nobody listens.
    let request = MapRequest::new(monitors, config.credentials().unwrap(), "rbd/six".parse().unwrap());
    let error = krbd().map(&request.options(options("mount_timeout=2"))).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::TimedOut, Some(libc::ETIMEDOUT)));

    let enter = ["--net", "--target", &cluster.namespace.id().to_string()].map(str::to_owned);
    let map = example("map");
    for mode in ["legacy", "prefer-crc"] {
        let mut command = Command::new("nsenter");
        command.args(&enter).arg(&map).args(["--conf", &cluster.conf(), "rbd/six", "-o", &format!("ms_mode={mode}")]);
        let (code, out, err) = text(&command.output().unwrap());
        assert_eq!(code, 0, "{err}");
        let device = krbd().find(std::path::Path::new(out.trim())).unwrap().remove(0);
        assert_eq!(device.fsid, config.fsid().unwrap());
        assert!(device.client_address.unwrap().to_string().starts_with("[::1]:0/"), "{device:?}");
        assert!(device.config.as_ref().unwrap().monitors().starts_with("[::1]:"), "{device:?}");
        // The device is not in the namespace: it is read and unmapped from anywhere.
        std::fs::File::open(&device.node).unwrap();
        krbd().unmap(&device, &UnmapOptions::new().deadline(PATIENCE)).unwrap();
    }
}
