//! Replacing a PersistentVolume whose source is wrong: the API server refuses to change it.

use std::fmt;

use serde::Serialize;

use super::volume::VolumeManifest;
use super::yaml;
use crate::error::Result;

/// What to do, in this order, so that a volume comes again with another manifest, and nothing in the store is lost.
///
/// It is advice: commands for a person, and the manifest that they apply.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Replacement {
    /// The steps, in order.
    pub steps: Vec<ReplacementStep>,
    /// The corrected manifest as YAML, and after it that of the claim, where the volume names one.
    pub manifest: String,
}

/// A step of a [`Replacement`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReplacementStep {
    /// Why.
    pub why: String,
    /// What to type.
    pub command: String,
}

impl Replacement {
    /// From the volume as it is and as it should be. Both have the same name.
    ///
    /// # Errors
    ///
    /// As [`VolumeManifest::to_yaml`].
    pub fn new(old: &VolumeManifest, new: &VolumeManifest) -> Result<Self> {
        let volume = old.name();
        let mut steps = Vec::new();
        let mut step = |why: &str, command: String| steps.push(ReplacementStep { why: why.to_owned(), command });
        step("keep a copy of the volume", format!("kubectl get pv {volume} -o yaml >{volume}.old.yaml"));
        if !old.is_retained() {
            step(
                "keep its data when the claim goes",
                format!(r#"kubectl patch pv {volume} -p '{{"spec":{{"persistentVolumeReclaimPolicy":"Retain"}}}}'"#),
            );
        }
        if let Some((namespace, claim)) = old.claim() {
            step("keep a copy of the claim", format!("kubectl -n {namespace} get pvc {claim} -o yaml >{claim}.yaml"));
            step(
                "end the pods that use it: scale what runs them to 0, until this says `Used By: <none>`",
                format!("kubectl -n {namespace} describe pvc {claim}"),
            );
            step("remove the claim, which would be lost", format!("kubectl -n {namespace} delete pvc {claim}"));
        }
        step("remove the volume; the data stays in the store", format!("kubectl delete pv {volume}"));
        step(
            "make it again, corrected and kept for the same claim, and with it the claim; labels and annotations of the \
             claim are in its copy only",
            format!("kubectl create -f {volume}.yaml"),
        );
        if let Some((namespace, claim)) = old.claim() {
            step("see that the claim is bound, then scale up again", format!("kubectl -n {namespace} get pvc {claim}"));
        }
        let claim = new.claim_manifest().map(|claim| yaml::write(&claim)).transpose()?;
        let manifest = [Some(new.to_yaml()?), claim].into_iter().flatten().collect::<Vec<_>>().join("---\n");
        Ok(Self { steps, manifest })
    }
}

/// The steps alone: in the manifest of an old driver's volume there are keys.
impl fmt::Debug for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replacement").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, ReplacementStep { why, command }) in self.steps.iter().enumerate() {
            writeln!(f, "{}. {why}:\n   {command}", n + 1)?;
        }
        write!(f, "the corrected manifest:\n{}", self.manifest.trim_end())
    }
}
