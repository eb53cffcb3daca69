//! A PersistentVolume that is there already, by its manifest.

use std::fmt;

use serde_json::{Map, Value, json};

use super::fuse::{FuseOptions, FuseTool};
use super::yaml;
use crate::error::{Error, ErrorKind, Result};
use crate::name::ImageSpec;

/// A PersistentVolume, as `kubectl get pv NAME -o yaml` (or `-o json`) prints it.
#[derive(Clone, PartialEq)]
pub struct VolumeManifest(Value);

/// The volume's name alone: drivers of old have keys among the options.
impl fmt::Debug for VolumeManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VolumeManifest").field(&self.name()).finish()
    }
}

/// Where drivers keep the options of a mount, by the names of the fields in `volumeAttributes` or `options`.
const OPTION_FIELDS: [&str; 3] = ["additional_args", "otherOpts", "mountOptions"];

/// The claim's own fields that belong to one object in one cluster.
const OF_ONE_CLAIM: [&str; 2] = ["uid", "resourceVersion"];

impl VolumeManifest {
    /// Reads a manifest, of YAML or JSON.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where it is neither, or no PersistentVolume with a name.
    pub fn parse(text: &str) -> Result<Self> {
        let manifest = Self(yaml::read(text)?);
        if manifest.text(&["kind"]) != Some("PersistentVolume") || manifest.text(&["metadata", "name"]).is_none() {
            return Err(Error::new(ErrorKind::InvalidInput, "read manifest")
                .with_hint("it is no PersistentVolume: `kubectl get pv NAME -o yaml` prints one"));
        }
        Ok(manifest)
    }

    /// The volume's name.
    pub fn name(&self) -> &str {
        self.text(&["metadata", "name"]).unwrap_or_default()
    }

    /// The namespace and name of the claim that it is bound to, or kept for.
    pub fn claim(&self) -> Option<(&str, &str)> {
        Some((self.text(&["spec", "claimRef", "namespace"])?, self.text(&["spec", "claimRef", "name"])?))
    }

    /// Whether the volume's data stays when its claim goes.
    pub fn is_retained(&self) -> bool {
        self.text(&["spec", "persistentVolumeReclaimPolicy"]) == Some("Retain")
    }

    /// The image behind it: of the rbd plugin, of ceph-csi (made by it, or static), and of Rook's old flex volumes.
    pub fn image(&self) -> Option<ImageSpec> {
        let attribute = |name| self.text(&["spec", "csi", "volumeAttributes", name]);
        let rbd = |name| self.text(&["spec", "rbd", name]);
        let flex = |name| self.text(&["spec", "flexVolume", "options", name]);
        let (pool, namespace, image) = if let Some(image) = rbd("image") {
            (rbd("pool").unwrap_or("rbd"), None, image)
        } else if let Some(image) = flex("image") {
            (flex("pool")?, None, image)
        } else {
            let is_static = attribute("staticVolume") == Some("true");
            let handle = self.text(&["spec", "csi", "volumeHandle"]).filter(|_| is_static);
            (attribute("pool")?, attribute("radosNamespace"), attribute("imageName").or(handle)?)
        };
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        namespace.map_or(format!("{pool}/{image}"), |name| format!("{pool}/{name}/{image}")).parse().ok()
    }

    /// The program that mounts it through FUSE, as the driver's name says, and the options in the manifest.
    pub fn fuse(&self) -> Option<(FuseTool, FuseOptions)> {
        let driver = self.text(&["spec", "csi", "driver"]).or(self.text(&["spec", "flexVolume", "driver"]))?;
        let mounter = self.text(&["spec", "csi", "volumeAttributes", "mounter"]).unwrap_or_default();
        let tool = match () {
            () if driver.contains("cosfs") => FuseTool::Cosfs,
            () if driver.contains("oss") => FuseTool::Ossfs,
            () if driver.contains("s3") || mounter == "s3fs" => FuseTool::S3fs,
            () => return None,
        };
        let mut options: Vec<&str> = Vec::new();
        options
            .extend(self.attributes().and_then(|map| OPTION_FIELDS.iter().find_map(|field| map.get(*field)?.as_str())));
        let listed = self.0.pointer("/spec/mountOptions").and_then(Value::as_array);
        options.extend(listed.into_iter().flatten().filter_map(Value::as_str));
        Some((tool, FuseOptions::parse(&options.iter().map(|text| as_option(text)).collect::<Vec<_>>().join(" "))))
    }

    /// The same volume, to be created anew with these options of its cache in place of its own; options that are not
    /// given stay as they are. What belongs to the object that is there now (`status`, `uid`, `resourceVersion` …) is
    /// left out.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where it is no volume of cosfs, ossfs or s3fs.
    pub fn with_cache_options(&self, options: &FuseOptions) -> Result<Self> {
        let no_options = || {
            Error::new(ErrorKind::InvalidInput, "change options of volume")
                .with_object(self.name())
                .with_hint("it is no volume of cosfs, ossfs or s3fs")
        };
        let (tool, _) = self.fuse().ok_or_else(no_options)?;
        let mut new = self.without_state();
        let field = if tool == FuseTool::Cosfs { "additional_args" } else { "otherOpts" };
        let attributes = new.attributes_mut().ok_or_else(no_options)?;
        let field = OPTION_FIELDS.into_iter().find(|field| attributes.contains_key(*field)).unwrap_or(field);
        let old = attributes.get(field).and_then(Value::as_str).unwrap_or_default();
        attributes.insert(field.to_owned(), options.put_into(old).into());
        Ok(new)
    }

    /// Without what the API server adds to an object.
    fn without_state(&self) -> Self {
        let mut new = self.0.clone();
        let kept = ["name", "labels", "annotations"];
        if let Some(top) = new.as_object_mut() {
            top.retain(|field, _| field != "status");
        }
        if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| kept.contains(&field.as_str()));
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                let is_state =
                    |name: &str| name.starts_with("pv.kubernetes.io/") || name.starts_with("kubectl.kubernetes.io/");
                annotations.retain(|name, _| !is_state(name));
            }
            metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
        }
        if let Some(claim) = new.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
            claim.retain(|field, _| !OF_ONE_CLAIM.contains(&field.as_str()));
        }
        Self(new)
    }

    /// The claim that goes with the volume, as far as the volume tells: all that its `spec` needs.
    pub(super) fn claim_manifest(&self) -> Option<Value> {
        let (namespace, claim) = self.claim()?;
        let spec = |field| self.0.get("spec").and_then(|spec| spec.get(field));
        let mut wanted = Map::new();
        for field in ["accessModes", "volumeMode"] {
            wanted.extend(spec(field).map(|value| (field.to_owned(), value.clone())));
        }
        // Without this field the cluster's default class would be put in.
        let class = spec("storageClassName").cloned().unwrap_or_else(|| "".into());
        wanted.insert("storageClassName".into(), class);
        wanted.insert("volumeName".into(), self.name().into());
        wanted.insert("resources".into(), json!({ "requests": spec("capacity") }));
        Some(json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": claim, "namespace": namespace },
            "spec": wanted,
        }))
    }

    /// The manifest as YAML, each text in quotes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where it cannot be written as YAML.
    pub fn to_yaml(&self) -> Result<String> {
        yaml::write(&self.0)
    }

    fn text(&self, path: &[&str]) -> Option<&str> {
        path.iter().try_fold(&self.0, |value, field| value.get(field))?.as_str()
    }

    fn attributes(&self) -> Option<&Map<String, Value>> {
        ["/spec/csi/volumeAttributes", "/spec/flexVolume/options"].iter().find_map(|at| self.0.pointer(at)?.as_object())
    }

    fn attributes_mut(&mut self) -> Option<&mut Map<String, Value>> {
        let path = ["/spec/csi/volumeAttributes", "/spec/flexVolume/options"]
            .into_iter()
            .find(|at| self.0.pointer(at).is_some());
        self.0.pointer_mut(path?)?.as_object_mut()
    }
}

/// An item of `mountOptions` has no `-o` before it.
fn as_option(text: &str) -> String {
    if text.starts_with('-') || text.contains(' ') { text.to_owned() } else { format!("-o{text}") }
}
