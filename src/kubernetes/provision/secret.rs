//! The Secret, whose text is wiped.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::error::Result;
use crate::kubernetes::yaml;
use crate::secret::Secret;

/// What stands in place of the key where it was not asked for.
const HIDDEN: &str = "***";

/// A user's key as the Secret that a plugin reads.
#[derive(Clone)]
pub(super) struct KeySecret {
    pub(super) name: String,
    pub(super) namespace: String,
    /// `kubernetes.io/rbd` is what the rbd plugin demands; CSI drivers take any.
    pub(super) kind: &'static str,
    /// With the field `userID`.
    pub(super) user: Option<String>,
    /// The field that the key is in.
    pub(super) key_field: &'static str,
    pub(super) key: Secret,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    r#type: &'static str,
    data: BTreeMap<&'static str, &'a str>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

impl KeySecret {
    /// The manifest, with the key or with what hides it.
    pub(super) fn to_yaml(&self, with_key: bool) -> Result<Zeroizing<String>> {
        let key = if with_key { base64(self.key.expose()) } else { Zeroizing::new(HIDDEN.to_owned()) };
        let user = self.user.as_deref().map(base64);
        let user = user.iter().map(|user| ("userID", user.as_str()));
        let manifest = Manifest {
            api_version: "v1",
            kind: "Secret",
            metadata: Metadata { name: &self.name, namespace: &self.namespace },
            r#type: self.kind,
            data: user.chain([(self.key_field, key.as_str())]).collect(),
        };
        // Of the full length from the start: a buffer that grows leaves copies behind.
        const REST: usize = 1024;
        let length = REST
            + self.name.len()
            + self.namespace.len()
            + key.len()
            + self.user.as_ref().map_or(0, |user| 2 * user.len());
        let mut text = Zeroizing::new(String::with_capacity(length));
        yaml::write_into(&mut text, &manifest)?;
        Ok(text)
    }
}

/// The text of the keyring, which is base64 by itself, encoded once more: as every value of a Secret's `data`.
fn base64(text: &str) -> Zeroizing<String> {
    let mut encoded = Zeroizing::new(String::with_capacity(text.len().div_ceil(3) * 4));
    STANDARD.encode_string(text, &mut encoded);
    encoded
}
