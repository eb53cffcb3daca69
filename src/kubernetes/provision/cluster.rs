//! Making the pool and the image.

use serde::Serialize;

use super::features::mappable_features;
use super::volume::PLAN;
use crate::error::{Error, ErrorKind, Result};
use crate::feature::{FeaturePlan, Features};
use crate::image::ImageOptions;
use crate::name::ImageSpec;
use crate::rados::{Cluster, Pool, PoolOptions};

/// An image to be made, and its pool where it is not there.
#[derive(Debug, Clone)]
#[must_use]
pub struct Provision {
    image: ImageSpec,
    size: u64,
    pool: PoolOptions,
    kernel: Option<Kernel>,
}

/// The kernel that is to map the image, and when its features are thought of.
#[derive(Debug, Clone, Copy)]
enum Kernel {
    Chosen(Features),
    Disabled(Features),
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Provisioned {
    /// Whether the pool was made; otherwise it was there.
    pub pool_created: bool,
    /// The image's features, as they are now.
    pub features: Features,
    /// The features that were disabled after it was made.
    pub disabled: Features,
}

impl Provision {
    /// An image of `size` bytes, with the features that the cluster gives every image.
    pub fn new(image: &ImageSpec, size: u64) -> Self {
        Self { image: image.clone(), size, pool: PoolOptions::for_images(), kernel: None }
    }

    /// The number of placement groups of a pool that has to be made; otherwise the cluster's default.
    pub fn pg_num(mut self, number: u32) -> Self {
        self.pool = self.pool.pg_num(number);
        self
    }

    /// Gives the image only features that this kernel can map: [`mappable_features`]. Nothing is left to disable.
    pub fn for_kernel(mut self, mask: Features) -> Self {
        self.kernel = Some(Kernel::Chosen(mask));
        self
    }

    /// Makes the image with all its usual features, and then disables those that this kernel lacks, as one does by hand
    /// with `rbd feature disable`.
    pub fn disabled_for_kernel(mut self, mask: Features) -> Self {
        self.kernel = Some(Kernel::Disabled(mask));
        self
    }

    /// Makes the pool, tagged `rbd` and initialised, if it is not there, and the image. The connection's deadline holds
    /// for each step. What was made before a step failed stays.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a spec without a pool; `AlreadyExists` for an image that is there; `FeatureImmutable` where
    /// no choice of features suits the kernel; and those of each step.
    pub fn run(&self, cluster: &Cluster) -> Result<Provisioned> {
        let (pool, pool_created) = self.pool(cluster)?;
        let mut options = ImageOptions::new();
        if let Some(Kernel::Chosen(mask)) = self.kernel {
            options = options.features(mappable_features(default_features(cluster)?, mask)?);
        }
        pool.create_image(self.image.image(), self.size, &options)?;
        let image = pool.open(self.image.image().clone())?;
        let mut disabled = Features::empty();
        if let Some(Kernel::Disabled(mask)) = self.kernel {
            let plan = FeaturePlan::mappable_by(image.features()?, mask)?;
            image.apply(&plan, |report| disabled |= report.step.features)?;
        }
        Ok(Provisioned { pool_created, features: image.features()?, disabled })
    }

    fn pool(&self, cluster: &Cluster) -> Result<(Pool, bool)> {
        let name = self.image.pool().ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, PLAN).with_object(&self.image).with_hint("its pool must be said")
        })?;
        match cluster.pool_of(&self.image) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                cluster.create_pool(name, &self.pool)?;
                let pool = cluster.pool_of(&self.image)?;
                pool.init()?;
                Ok((pool, true))
            }
            pool => Ok((pool?, false)),
        }
    }
}

/// What `rbd create` gives an image where nothing is said: `rbd_default_features`, as names or as a number.
fn default_features(cluster: &Cluster) -> Result<Features> {
    let value = cluster.config("rbd_default_features")?;
    match crate::text::decimal(value.trim()) {
        Some(bits) => Ok(Features::from_bits_retain(bits)),
        None => value.parse(),
    }
}
