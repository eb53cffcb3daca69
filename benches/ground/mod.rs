//! The cluster that a benchmark runs on, a pool of its own there, and Ceph's programs on the same cluster.

use std::process::{Command, Stdio};

use rbd::rados::PoolOptions;
use rbd::{Cluster, Image, Pool, PoolName};

/// A new pool on the cluster of `RBD_TEST_CLUSTER`, which goes with all its images when it is dropped.
pub struct Ground {
    /// The connection that is measured.
    pub cluster: Cluster,
    pub pool: Pool,
    /// Holds images open, as other clients do.
    holder: Cluster,
}

impl Ground {
    pub fn new(pool: &str) -> Self {
        let (cluster, holder) = (connect(), connect());
        let name = PoolName::new(format!("bench-{pool}-{}", std::process::id())).unwrap();
        cluster.create_pool(&name, &PoolOptions::for_images()).unwrap();
        let pool = cluster.pool(name).unwrap();
        pool.init().unwrap();
        Self { cluster, pool, holder }
    }

    /// Opens an image to write on another connection, so that it has a watcher for as long as this lives.
    pub fn hold(&self, image: &str) -> Image {
        self.holder.pool(self.pool.name().clone()).unwrap().open(image).unwrap()
    }

    /// What `PROGRAM ARGUMENTS` prints.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command.env("CEPH_CONF", conf()).env_remove("CEPH_ARGS").env_remove("CEPH_KEYRING");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let name = self.pool.name();
        self.cluster.delete_pool_with_all_data(name, name.as_str()).unwrap();
    }
}

fn conf() -> String {
    let directory = std::env::var("RBD_TEST_CLUSTER").expect("no test cluster: run benches/run");
    format!("{directory}/ceph.conf")
}

pub fn connect() -> Cluster {
    Cluster::builder().config_file(conf()).connect().unwrap()
}
