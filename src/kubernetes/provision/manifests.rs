//! Secret, PersistentVolume and claim (Kubernetes' API `v1`, and ceph-csi's document on static volumes).

use std::fmt;

use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::name::{check_name, quantity};
use super::plugin::Plugin;
use super::secret::KeySecret;
use super::volume::{ImageVolume, PLAN, SECRET};
use crate::error::{Error, ErrorKind, Result};
use crate::krbd;
use crate::kubernetes::yaml;
use crate::secret::Secret;

/// What Kubernetes needs to use an image: a Secret with the user's key, a PersistentVolume, and the claim for it.
///
/// `Display` is the three as YAML, with the key hidden; `Debug` has no key either.
#[derive(Clone)]
pub struct Manifests {
    secret: KeySecret,
    volume: Value,
    claim: Value,
}

impl Manifests {
    pub(super) fn new(volume: &ImageVolume, plugin: &Plugin, user: &str, key: &Secret) -> Result<Self> {
        krbd::check_key(key).map_err(|error| {
            Error::new(ErrorKind::InvalidInput, PLAN)
                .with_object(&volume.image)
                .with_hint("the key must be as in the keyring, in base64 once and not twice")
                .with_source(error)
        })?;
        let (name, namespace) =
            volume.secret.clone().unwrap_or_else(|| (format!("ceph-{user}"), volume.namespace.clone()));
        check_name(SECRET, &name)?;
        let reference = json!({ "name": name, "namespace": namespace });
        let (field, source) = source(volume, plugin, user, &reference);
        let (kind, key_field, user) = match plugin {
            Plugin::Rbd { .. } => ("kubernetes.io/rbd", "key", None),
            Plugin::Csi { .. } => ("Opaque", "userKey", Some(user.to_owned())),
        };
        let mut spec = json!({
            "accessModes": [volume.access_mode.as_str()],
            "capacity": { "storage": quantity(volume.size) },
            // Nobody else's claim can take the volume.
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": volume.name, "namespace": volume.namespace,
            },
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "volumeMode": volume_mode(volume),
        });
        spec[field] = source;
        Ok(Self {
            secret: KeySecret { name, namespace, kind, user, key_field, key: key.clone() },
            volume: json!({
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": { "name": volume.name },
                "spec": spec,
            }),
            claim: json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": { "name": volume.name, "namespace": volume.namespace },
                "spec": {
                    "accessModes": [volume.access_mode.as_str()],
                    "resources": { "requests": { "storage": quantity(volume.size) } },
                    // Without this the cluster's default class would make another volume.
                    "storageClassName": "",
                    "volumeMode": volume_mode(volume),
                    "volumeName": volume.name,
                },
            }),
        })
    }

    /// All three as YAML, **with the key**, for `kubectl create -f -`. The buffer is wiped when it goes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where they cannot be written as YAML.
    pub fn to_yaml_with_key(&self) -> Result<Zeroizing<String>> {
        let (secret, rest) = (self.secret.to_yaml(true)?, self.without_secret()?);
        let mut all = Zeroizing::new(String::with_capacity(secret.len() + rest.len() + SEPARATOR.len()));
        [secret.as_str(), SEPARATOR, &rest].into_iter().for_each(|part| all.push_str(part));
        Ok(all)
    }

    /// PersistentVolume and claim as YAML, where the Secret is there already.
    ///
    /// # Errors
    ///
    /// As [`to_yaml_with_key`](Self::to_yaml_with_key).
    pub fn without_secret(&self) -> Result<String> {
        Ok([yaml::write(&self.volume)?, yaml::write(&self.claim)?].join(SEPARATOR))
    }
}

const SEPARATOR: &str = "---\n";

impl fmt::Display for Manifests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.secret.to_yaml(false).map_err(|_| fmt::Error)?;
        let rest = self.without_secret().map_err(|_| fmt::Error)?;
        write!(f, "{}{SEPARATOR}{}", secret.as_str(), rest.trim_end())
    }
}

impl fmt::Debug for Manifests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifests")
            .field("secret", &self.secret.name)
            .field("volume", &self.volume)
            .field("claim", &self.claim)
            .finish()
    }
}

fn volume_mode(volume: &ImageVolume) -> &'static str {
    if volume.file_system.is_some() { "Filesystem" } else { "Block" }
}

/// The field of a PersistentVolume's spec that says where it comes from, and what is in it.
fn source(volume: &ImageVolume, plugin: &Plugin, user: &str, secret: &Value) -> (&'static str, Value) {
    let (pool, image) = (volume.image.pool().map(ToString::to_string), volume.image.image().as_str());
    let (field, mut source) = match plugin {
        Plugin::Rbd { monitors } => {
            ("rbd", json!({ "image": image, "monitors": monitors, "pool": pool, "secretRef": secret, "user": user }))
        }
        Plugin::Csi { cluster_id, driver } => (
            "csi",
            json!({
                "driver": driver,
                "nodeStageSecretRef": secret,
                "volumeAttributes": {
                    "clusterID": cluster_id,
                    "imageFeatures": volume.features.names().collect::<Vec<_>>().join(","),
                    "pool": pool,
                    "staticVolume": "true",
                },
                // A static volume's handle is the image's name.
                "volumeHandle": image,
            }),
        ),
    };
    if let Some(file_system) = &volume.file_system {
        source["fsType"] = file_system.as_str().into();
    }
    if volume.access_mode == super::AccessMode::ReadOnlyMany {
        source["readOnly"] = true.into();
    }
    (field, source)
}
