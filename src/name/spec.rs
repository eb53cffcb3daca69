//! What is written to name an image: `[pool/[namespace/]]image[@snap]`.

use std::fmt;
use std::str::FromStr;

use super::{ImageName, NamespaceName, PoolName, SnapshotName};
use crate::error::{Error, Result};
use crate::text::quoted;

/// An image or a snapshot of it, as the `rbd` program writes it: `[pool/[namespace/]]image[@snap]`.
///
/// A spec without a pool stays without one until [`with_default_pool`](Self::with_default_pool) fills it.
///
/// ```
/// use rbd::ImageSpec;
///
/// let spec: ImageSpec = "kube/tenant/pvc-1@before".parse()?;
/// assert_eq!(spec.pool().map(|pool| pool.as_str()), Some("kube"));
/// assert_eq!(spec.image().as_str(), "pvc-1");
/// assert_eq!(spec.to_string(), "kube/tenant/pvc-1@before");
/// # Ok::<(), rbd::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageSpec {
    // One field for both: there is no way to write a namespace without a pool.
    location: Option<(PoolName, Option<NamespaceName>)>,
    image: ImageName,
    snapshot: Option<SnapshotName>,
}

impl ImageSpec {
    /// An image whose pool is not said.
    pub fn new(image: ImageName) -> Self {
        Self { location: None, image, snapshot: None }
    }

    /// In this pool, in its default namespace.
    #[must_use]
    pub fn in_pool(self, pool: PoolName) -> Self {
        Self { location: Some((pool, None)), ..self }
    }

    /// In this namespace of this pool.
    #[must_use]
    pub fn in_namespace(self, pool: PoolName, namespace: NamespaceName) -> Self {
        Self { location: Some((pool, Some(namespace))), ..self }
    }

    /// At this snapshot.
    #[must_use]
    pub fn at_snapshot(self, snapshot: SnapshotName) -> Self {
        Self { snapshot: Some(snapshot), ..self }
    }

    /// In this pool, if the spec has none: the caller's, or what the configuration has as `rbd_default_pool`.
    #[must_use]
    pub fn with_default_pool(self, pool: &PoolName) -> Self {
        Self { location: self.location.or_else(|| Some((pool.clone(), None))), ..self }
    }

    /// The pool, where it is said.
    pub fn pool(&self) -> Option<&PoolName> {
        self.location.as_ref().map(|(pool, _)| pool)
    }

    /// The namespace; `None` is the default namespace.
    pub fn namespace(&self) -> Option<&NamespaceName> {
        self.location.as_ref().and_then(|(_, namespace)| namespace.as_ref())
    }

    /// The image.
    pub fn image(&self) -> &ImageName {
        &self.image
    }

    /// The snapshot; `None` is the image itself.
    pub fn snapshot(&self) -> Option<&SnapshotName> {
        self.snapshot.as_ref()
    }

    /// Checks that the kernel's map request can carry each of the names.
    ///
    /// # Errors
    ///
    /// `InvalidName`, of the first name that the kernel would misread.
    pub fn check_for_kernel(&self) -> Result<()> {
        self.pool().map_or(Ok(()), PoolName::check_for_kernel)?;
        self.namespace().map_or(Ok(()), NamespaceName::check_for_kernel)?;
        self.image.check_for_kernel()?;
        self.snapshot().map_or(Ok(()), SnapshotName::check_for_kernel)
    }
}

impl fmt::Display for ImageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pool) = self.pool() {
            write!(f, "{pool}/")?;
        }
        if let Some(namespace) = self.namespace() {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{}", self.image)?;
        if let Some(snapshot) = &self.snapshot {
            write!(f, "@{snapshot}")?;
        }
        Ok(())
    }
}

impl FromStr for ImageSpec {
    type Err = Error;

    fn from_str(spec: &str) -> Result<Self> {
        // A pool's name may contain `@`, so the slashes come first.
        let mut before: Vec<_> = spec.splitn(3, '/').collect();
        let last = before.pop().unwrap_or_default();
        let (image, snapshot) = match last.split_once('@') {
            Some((image, snapshot)) => (image, Some(snapshot)),
            None => (last, None),
        };
        let parse = || {
            let location = match before[..] {
                [pool, namespace] => Some((pool.parse()?, Some(namespace.parse()?))),
                [pool] => Some((pool.parse()?, None)),
                _ => None,
            };
            Ok(Self { location, image: image.parse()?, snapshot: snapshot.map(str::parse).transpose()? })
        };
        parse().map_err(|part: Error| {
            Error::new(part.kind(), format!("{} of image spec", part.operation()))
                .with_object(quoted(spec))
                .with_details(part.details().clone())
        })
    }
}

impl From<ImageName> for ImageSpec {
    fn from(image: ImageName) -> Self {
        Self::new(image)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for ImageSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for ImageSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
