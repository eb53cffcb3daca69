//! Making and removing images, and making a pool ready for them; namespaces.

use std::sync::Arc;

use super::lock::LOCK_HINT;
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::feature::Features;
use crate::ffi::image as ffi;
use crate::name::{ImageName, NamespaceName, PoolName};
use crate::rados::Pool;

/// How a new image is made; what is not set is the cluster's default (`rbd_default_features` and its like).
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ImageOptions(ffi::ImageOptions);

impl ImageOptions {
    /// The cluster's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Exactly these features.
    #[doc(alias = "RBD_IMAGE_OPTION_FEATURES")]
    pub fn features(mut self, features: Features) -> Self {
        self.0.features = Some(features.bits());
        self
    }

    /// Objects of two to the power of `order` bytes: 12 to 25.
    #[doc(alias = "RBD_IMAGE_OPTION_ORDER")]
    pub fn order(mut self, order: u8) -> Self {
        self.0.order = Some(order.into());
        self
    }

    /// Stripes of `unit` bytes over `count` objects.
    #[doc(alias = "RBD_IMAGE_OPTION_STRIPE_UNIT")]
    pub fn striping(mut self, unit: u64, count: u64) -> Self {
        self.0.stripe = Some((unit, count));
        self
    }

    /// Keeps the data in another pool.
    #[doc(alias = "RBD_IMAGE_OPTION_DATA_POOL")]
    pub fn data_pool(mut self, pool: &PoolName) -> Self {
        self.0.data_pool = Some(pool.to_string());
        self
    }
}

impl Pool {
    /// Makes an image of `size` bytes.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `InvalidInput` for a layout or a combination of features that librbd refuses.
    #[doc(alias = "rbd_create4")]
    pub fn create_image(&self, name: &ImageName, size: u64, options: &ImageOptions) -> Result<()> {
        let (io, new, options) = (Arc::clone(&self.io), name.clone(), options.clone());
        self.call("create image", &format_args!("{self}/{name}"), move || {
            ffi::create(&io, new.as_str(), size, &options.0)
        })
    }

    /// Removes an image with all its data.
    ///
    /// # Errors
    ///
    /// `Busy` where somebody watches it, with the watchers in [`Error::details`] as far as they can be read; errno 39
    /// (ENOTEMPTY, kind `Other`) where it has snapshots; `TimedOut`, also where a lock was taken by hand.
    #[doc(alias = "rbd_remove")]
    pub fn remove_image(&self, name: &ImageName) -> Result<()> {
        let deadline = Deadline::after(self.deadline);
        let (io, old) = (Arc::clone(&self.io), name.clone());
        let removed = self.call("remove image", &format_args!("{self}/{name}"), move || ffi::remove(&io, old.as_str()));
        removed.map_err(|error| match error.kind() {
            ErrorKind::Busy => self.name_watchers(name, error, deadline),
            ErrorKind::TimedOut => error.with_hint(LOCK_HINT),
            _ if error.errno() == Some(libc::ENOTEMPTY) => error.with_hint("it has snapshots"),
            _ => error,
        })
    }

    /// Who is in the way may have gone by now; then the error stays as it is.
    fn name_watchers(&self, image: &ImageName, error: Error, deadline: Deadline) -> Error {
        let open = self.until(deadline).open_read_only(image.clone());
        match open.and_then(|image| image.until(deadline).watchers()) {
            Ok(watchers) if !watchers.is_empty() => error.with_details(Details::Watchers(watchers)),
            _ => error,
        }
    }

    /// Makes a new pool ready for images, as `rbd pool init` does.
    ///
    /// # Errors
    ///
    /// `PermissionDenied`, and as [every call](crate::rados#errors).
    #[doc(alias = "rbd_pool_init")]
    pub fn init(&self) -> Result<()> {
        let io = Arc::clone(&self.io);
        self.call("initialise pool", self, move || ffi::pool_init(&io))
    }

    /// Whether this pool has this namespace for images. A handle of the pool in it ([`Pool::in_namespace`]) can be had
    /// in any case.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rbd_namespace_exists")]
    pub fn namespace_exists(&self, namespace: &NamespaceName) -> Result<bool> {
        let (io, name) = (Arc::clone(&self.io), namespace.clone());
        self.call("look up namespace", &format_args!("{self}/{namespace}"), move || {
            ffi::namespace_exists(&io, name.as_str())
        })
    }
}
