//! The library on the test cluster: connections, pools of a test's own, and comparing with the real programs.

use std::ops::Deref;

use rbd::rados::PoolOptions;
use rbd::{Cluster, ImageName, ImageSpec, Pool, PoolName};

use super::support::{TestCluster, stdout, unique};

/// A connection of the test's own.
pub fn connect(cluster: &TestCluster) -> Cluster {
    Cluster::builder().config_file(cluster.conf()).connect().unwrap()
}

/// A pool of the test's own on a connection of its own. It goes, with its images, when the guard does.
#[derive(Debug)]
pub struct OwnPool(Pool);

impl OwnPool {
    pub fn new() -> Self {
        Self::on(TestCluster::shared())
    }

    pub fn on(cluster: &TestCluster) -> Self {
        let library = connect(cluster);
        let name = PoolName::new(unique("pool")).unwrap();
        library.create_pool(&name, &PoolOptions::for_images()).unwrap();
        Self(library.pool(name).unwrap())
    }

    /// `POOL/IMAGE`, or for a snapshot `POOL/IMAGE@SNAPSHOT`.
    pub fn spec(&self, image: &str) -> String {
        format!("{}/{image}", self.0)
    }
}

impl Deref for OwnPool {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.0
    }
}

impl Drop for OwnPool {
    /// Best effort: the whole cluster goes in the end.
    fn drop(&mut self) {
        let _ = self.0.cluster().delete_pool_with_all_data(self.0.name(), self.0.name().as_str());
    }
}

/// Makes an image of format 1, which only the `rbd` program does.
pub fn create_format_1(pool: &Pool, name: &str) {
    let spec = format!("{pool}/{name}");
    let mut create = TestCluster::shared().command("rbd", ["create", "--image-format", "1", "--size", "10M", &spec]);
    stdout(create.env("RBD_FORCE_ALLOW_V1", "1"));
}

pub fn image(name: &str) -> ImageName {
    name.parse().unwrap()
}

pub fn spec(spec: &str) -> ImageSpec {
    spec.parse().unwrap()
}
