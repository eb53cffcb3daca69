//! What a map needs: the cluster, the user, the image and the options, as a value.

use std::time::Duration;

use super::cephx_key::{CephxKey, KeyType};
use super::options::MapOptions;
use crate::address::MonitorAddresses;
use crate::error::Result;
use crate::name::ImageSpec;
use crate::secret::Secret;

/// Who maps: a user and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(super) user: String,
    pub(super) key: Key,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Secret(Secret),
    /// In a keyring that the kernel finds by itself, as `client.USER`.
    Preloaded,
    /// None: the cluster does without authentication.
    Absent,
}

impl Credentials {
    /// With the key as a keyring has it. The user `admin` is what Ceph elsewhere calls `client.admin`.
    pub fn new(user: impl Into<String>, secret: Secret) -> Self {
        Self { user: user.into(), key: Key::Secret(secret) }
    }

    /// A user whose key the kernel has already: of type `ceph`, described as `client.USER`, in a keyring that this
    /// process can search (keyctl(1)).
    pub fn preloaded(user: impl Into<String>) -> Self {
        Self { user: user.into(), key: Key::Preloaded }
    }

    /// A user of a cluster that does without authentication.
    pub fn without_key(user: impl Into<String>) -> Self {
        Self { user: user.into(), key: Key::Absent }
    }

    /// What kind of key it is; `None` where there is none, or the kernel has it.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): it is not a cephx key. A map fails then too.
    pub fn key_type(&self) -> Result<Option<KeyType>> {
        match &self.key {
            Key::Secret(secret) => match CephxKey::decode(secret) {
                Ok(key) => Ok(Some(key.key_type())),
                Err(error) => Err(error.with_object(format!("of client.{}", self.user))),
            },
            Key::Preloaded | Key::Absent => Ok(None),
        }
    }

    /// The user's name, without `client.`.
    pub fn user(&self) -> &str {
        &self.user
    }
}

/// What to do about the device node `/dev/rbdN`, which udev or the kernel's devtmpfs makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePolicy {
    /// It must be there, with the right number, within this time after the map.
    Require(Duration),
    /// The same, and where it is missing by then it is made (mode 0600); a file of another kind is never replaced.
    Create(Duration),
    /// It is not looked for: the map succeeds without.
    Ignore,
}

impl Default for NodePolicy {
    /// Required within two seconds.
    fn default() -> Self {
        Self::Require(Duration::from_secs(2))
    }
}

/// A map, described: monitors, credentials, image and options.
///
/// It is a value that knows no cluster and is checked when it is used.
///
/// ```
/// use rbd::Secret;
/// use rbd::krbd::{Credentials, MapOptions, MapRequest};
///
/// let monitors = "[v2:192.0.2.1:3300,v1:192.0.2.1:6789]".parse()?;
/// let credentials = Credentials::new("kube", Secret::new("AQBRHFNlAAAAABAAo9K/oNuuDNdSqbRnkTIWhw=="));
/// let request = MapRequest::new(monitors, credentials, "kube/pvc-1".parse()?)
///     .options(MapOptions::new().read_only())
///     .deadline(std::time::Duration::from_secs(30));
/// # Ok::<(), rbd::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct MapRequest {
    pub(super) monitors: MonitorAddresses,
    pub(super) credentials: Credentials,
    pub(super) spec: ImageSpec,
    pub(super) options: MapOptions,
    pub(super) deadline: Option<Duration>,
    pub(super) node: NodePolicy,
    pub(super) secret_in_options: bool,
}

impl MapRequest {
    /// The spec must name a pool.
    pub fn new(monitors: MonitorAddresses, credentials: Credentials, spec: ImageSpec) -> Self {
        Self {
            monitors,
            credentials,
            spec,
            options: MapOptions::new(),
            deadline: None,
            node: NodePolicy::default(),
            secret_in_options: false,
        }
    }

    /// The map options; none without this.
    ///
    /// Without `ms_mode` among them the kernel speaks the legacy protocol to the monitors' v1 addresses, or, where only
    /// v2 addresses are known, `prefer-crc`; one of the two is tried, never both.
    pub fn options(self, options: MapOptions) -> Self {
        Self { options, ..self }
    }

    /// How long the whole map may take, the device node included; without this as long as the kernel takes. With a
    /// healthy kernel and no monitor that is `mount_timeout`, with an OSD down it is for ever.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// The same request, with no more time than this.
    #[cfg(feature = "librados")]
    pub(crate) fn deadline_at_most(self, most: Duration) -> Self {
        Self { deadline: Some(self.deadline.map_or(most, |own| own.min(most))), ..self }
    }

    /// What to do about the device node; without this, [`NodePolicy::default`].
    pub fn node(self, node: NodePolicy) -> Self {
        Self { node, ..self }
    }

    /// Where the kernel's keyring cannot be used (a container's filter forbids add_key(2), a kernel without keyrings),
    /// the key is written among the options instead. The kernel shows those to root for as long as the mapping lives.
    pub fn allow_secret_in_options(self) -> Self {
        Self { secret_in_options: true, ..self }
    }

    /// What is to be mapped.
    pub fn spec(&self) -> &ImageSpec {
        &self.spec
    }

    /// The options that it is to be mapped with.
    pub fn map_options(&self) -> &MapOptions {
        &self.options
    }
}
