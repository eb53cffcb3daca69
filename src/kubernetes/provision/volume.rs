//! An image as a volume: what the manifests say of it.

use super::manifests::Manifests;
use super::name::{check_name, check_namespace};
use super::plugin::Plugin;
use crate::error::{Error, ErrorKind, Result};
use crate::feature::Features;
use crate::name::ImageSpec;
use crate::secret::Secret;

/// How many nodes may use a volume, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AccessMode {
    /// One node, to write.
    ReadWriteOnce,
    /// Many nodes, to read.
    ReadOnlyMany,
    /// Many nodes, to write: only as a block device, for programs that coordinate their writers.
    ReadWriteMany,
    /// One pod, to write.
    ReadWriteOncePod,
}

impl AccessMode {
    /// As it stands in a manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadOnlyMany => "ReadOnlyMany",
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
        }
    }
}

/// A PersistentVolume to be, and the claim that it is kept for.
///
/// As it begins, both are called as the image, the claim is in the namespace `default`, one node may use it, with ext4,
/// and the image stays when the claim goes (`Retain`).
#[derive(Debug, Clone)]
pub struct ImageVolume {
    pub(super) image: ImageSpec,
    pub(super) size: u64,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) access_mode: AccessMode,
    /// `None` is a block device.
    pub(super) file_system: Option<String>,
    pub(super) features: Features,
    /// Name and namespace, where they are not the usual ones.
    pub(super) secret: Option<(String, String)>,
}

impl ImageVolume {
    /// A volume of `size` bytes for an image, whose pool is said.
    ///
    /// # Errors
    ///
    /// `InvalidInput` without a pool, for a snapshot, and without a size; `InvalidName` where the image's name contains
    /// what the kernel's map request cannot carry.
    pub fn new(image: &ImageSpec, size: u64) -> Result<Self> {
        let invalid =
            |why: &'static str| Err(Error::new(ErrorKind::InvalidInput, PLAN).with_object(image).with_hint(why));
        if image.pool().is_none() {
            return invalid("its pool must be said");
        }
        if image.snapshot().is_some() {
            return invalid("a snapshot is no volume: make a clone of it");
        }
        if size == 0 {
            return invalid("it needs a size");
        }
        image.check_for_kernel()?;
        Ok(Self {
            image: image.clone(),
            size,
            name: image.image().to_string(),
            namespace: "default".into(),
            access_mode: AccessMode::ReadWriteOnce,
            file_system: Some("ext4".into()),
            features: Features::LAYERING,
            secret: None,
        })
    }

    /// Calls volume and claim so, and not as the image.
    ///
    /// # Errors
    ///
    /// `InvalidName` for what Kubernetes does not allow.
    pub fn name(mut self, name: impl Into<String>) -> Result<Self> {
        self.name = name.into();
        check_name(NAME, &self.name)?;
        Ok(self)
    }

    /// Puts the claim, and the Secret unless [`secret`](Self::secret) says otherwise, into this namespace of
    /// Kubernetes.
    ///
    /// # Errors
    ///
    /// `InvalidName` for what Kubernetes does not allow.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Result<Self> {
        self.namespace = namespace.into();
        check_namespace(&self.namespace)?;
        Ok(self)
    }

    /// Calls the Secret so, in this namespace of Kubernetes; otherwise it is `ceph-USER`, beside the claim.
    ///
    /// # Errors
    ///
    /// `InvalidName` for what Kubernetes does not allow.
    pub fn secret(mut self, name: &str, namespace: &str) -> Result<Self> {
        check_name(SECRET, name)?;
        check_namespace(namespace)?;
        self.secret = Some((name.to_owned(), namespace.to_owned()));
        Ok(self)
    }

    /// Which nodes may use it.
    #[must_use]
    pub fn access_mode(mut self, mode: AccessMode) -> Self {
        self.access_mode = mode;
        self
    }

    /// The file system, such as `xfs`, which is made at the first mount where the image is empty.
    #[must_use]
    pub fn file_system(mut self, file_system: impl Into<String>) -> Self {
        self.file_system = Some(file_system.into());
        self
    }

    /// No file system: pods get the block device.
    #[must_use]
    pub fn block(mut self) -> Self {
        self.file_system = None;
        self
    }

    /// The image's features, which ceph-csi wants to be told. They must be those that the image has.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.features = features;
        self
    }

    /// The manifests, with the key of a user (without `client.`) that the nodes map with.
    ///
    /// # Errors
    ///
    /// `InvalidName` where the image's name, which the volume then has, or the user's in the Secret's is none for
    /// Kubernetes; `InvalidInput` for an access mode that the plugin does not have, for what is no key, and for an
    /// image in a namespace with the rbd plugin, which knows none. ceph-csi takes the namespace from its configuration
    /// of that cluster id.
    pub fn manifests(&self, plugin: &Plugin, user: &str, key: &Secret) -> Result<Manifests> {
        check_name(NAME, &self.name)?;
        self.check_plugin(plugin)?;
        Manifests::new(self, plugin, user.strip_prefix("client.").unwrap_or(user), key)
    }

    fn check_plugin(&self, plugin: &Plugin) -> Result<()> {
        let invalid =
            |why: &'static str| Err(Error::new(ErrorKind::InvalidInput, PLAN).with_object(&self.image).with_hint(why));
        let in_tree = matches!(plugin, Plugin::Rbd { .. });
        match self.access_mode {
            AccessMode::ReadWriteMany if in_tree => invalid("the rbd plugin has no ReadWriteMany"),
            AccessMode::ReadWriteOncePod if in_tree => invalid("ReadWriteOncePod is for CSI drivers only"),
            AccessMode::ReadWriteMany if self.file_system.is_some() => {
                invalid("two nodes that write one file system destroy it: ReadWriteMany is for block devices only")
            }
            _ if in_tree && self.image.namespace().is_some() => invalid("the rbd plugin knows no namespaces"),
            _ => Ok(()),
        }
    }
}

pub(super) const PLAN: &str = "plan volume for";
pub(super) const NAME: &str = "name of volume";
pub(super) const SECRET: &str = "name of Secret";
