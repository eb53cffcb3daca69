//! A message of kubelet or of the attach controller as values.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::event::{PieceKind, pieces};
use super::fuse::FuseMount;
use super::parse;
use crate::feature::{Features, Unsupported};
use crate::name::ImageSpec;
use crate::watcher::Watcher;

/// What kubelet or the attach controller says when a volume does not come or does not go.
///
/// Its `Display` is one line that names the failure and the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailureMessage {
    /// What went wrong.
    #[serde(flatten)]
    pub failure: Failure,
    /// The volume as Kubernetes names it, mostly that of the PersistentVolume.
    pub volume: Option<String>,
    /// The node that the message names as the one that wants the volume.
    pub node: Option<String>,
    /// The message in one line, with keys in it replaced by `***`.
    pub text: String,
}

/// What went wrong. What the message does not say, or was cut off, is `None` or empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "failure", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Failure {
    /// `rbd image POOL/IMAGE is still being used`: the plugin waited, and the image had a watcher still.
    ImageInUse {
        /// The image.
        image: Option<ImageSpec>,
        /// Who watched it, where the message has the output of `rbd status`.
        watchers: Vec<Watcher>,
    },
    /// `Multi-Attach error`: the volume may be attached to one node, and is attached to another.
    MultiAttach {
        /// The pods that use it, in the namespace of the pod that waits, or with their own before a slash.
        pods: Vec<String>,
        /// How many pods of other namespaces use it.
        pods_elsewhere: u32,
        /// The nodes that it is attached to.
        nodes: Vec<String>,
        /// The image, where the volume's unique name has it (the rbd plugin's does).
        image: Option<ImageSpec>,
    },
    /// `timed out waiting for the condition`: kubelet gave up for now. It says no reason; another event does.
    TimedOut {
        /// The pod, where the message names it.
        pod: Option<String>,
        /// Volumes of the pod that are not mounted.
        unmounted: Vec<String>,
        /// Volumes of the pod that are not attached; older kubelets list all volumes of the pod here.
        unattached: Vec<String>,
        /// Volumes of the pod that kubelet could not even look at, such as those of a missing claim.
        unprocessed: Vec<String>,
    },
    /// The kernel did not map the image.
    MapFailed {
        /// The image, where the message has the arguments of `rbd map`.
        image: Option<ImageSpec>,
        /// The errno that `rbd` reported, in its text or as its exit status.
        errno: Option<i32>,
        /// What `rbd` printed, line by line.
        output: Vec<String>,
    },
    /// The kernel did not map the image as it lacks some of the image's features.
    FeatureMismatch {
        /// The image.
        image: Option<ImageSpec>,
        /// Which features, as far as `rbd` or the kernel says.
        features: Unsupported,
    },
    /// `feature set mismatch` of libceph: the kernel lacks what the cluster demands of every client.
    ClusterFeatures {
        /// The bits that are missing (`include/linux/ceph/ceph_features.h`).
        missing: Option<u64>,
    },
    /// The kernel did not unmap the image.
    UnmapFailed {
        /// The device.
        device: Option<PathBuf>,
        /// The image, where it was unmapped by its name.
        image: Option<ImageSpec>,
        /// The errno that `rbd` reported, in its text or as its exit status.
        errno: Option<i32>,
    },
    /// An object store could not be mounted through FUSE.
    FuseMount(FuseMount),
    /// None of these: this library does not know what it means.
    NotRecognised,
}

impl FailureMessage {
    /// Reads a text with a message in it: the first that is recognised, [`Failure::NotRecognised`] where none is.
    ///
    /// Anything may stand around it. Lines may end as on Windows, be wrapped, and be cut off; a value at the end of a
    /// text that was cut off may not be whole.
    pub fn parse(text: &str) -> Self {
        let mut messages = Self::parse_all(text);
        let known = messages.iter().position(Self::is_recognised);
        match known.or((messages.len() == 1).then_some(0)) {
            Some(at) => messages.swap_remove(at),
            None => parse::message(text),
        }
    }

    /// Reads all messages of a text: of a table of events (`kubectl describe`, `kubectl get events`), of a log, or
    /// simply one after the other. A message that is recognised and there several times is returned once. What is not
    /// recognised is among them if it is an event of type `Warning` or names a volume; all other text is left out.
    pub fn parse_all(text: &str) -> Vec<Self> {
        let mut messages: Vec<Self> = Vec::new();
        // Where those of each volume are: a log can have thousands.
        let mut of_volume: HashMap<Option<String>, Vec<usize>> = HashMap::new();
        for piece in pieces(text) {
            let message = parse::message(&piece.text);
            let tells = message.is_recognised() || piece.kind == PieceKind::Warning || message.volume.is_some();
            if piece.kind == PieceKind::Normal || !tells {
                continue;
            }
            let known = of_volume.entry(message.volume.clone()).or_default();
            if !message.is_recognised() || known.iter().all(|at| messages[*at].failure != message.failure) {
                known.push(messages.len());
                messages.push(message);
            }
        }
        messages
    }

    /// Whether the failure is one that this library knows.
    pub fn is_recognised(&self) -> bool {
        self.failure != Failure::NotRecognised
    }

    /// The image that the message is about, where it names one: the one to ask the cluster about.
    pub fn image(&self) -> Option<&ImageSpec> {
        match &self.failure {
            Failure::ImageInUse { image, .. }
            | Failure::MultiAttach { image, .. }
            | Failure::MapFailed { image, .. }
            | Failure::FeatureMismatch { image, .. }
            | Failure::UnmapFailed { image, .. } => image.as_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for FailureMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(volume) = &self.volume {
            write!(f, "volume {volume}: ")?;
        }
        let named = |image: &Option<ImageSpec>| image.as_ref().map_or("the image".to_owned(), |i| format!("image {i}"));
        let errno = |errno: &Option<i32>| errno.map_or(String::new(), |errno| format!(" (errno {errno})"));
        match &self.failure {
            Failure::ImageInUse { image, .. } => write!(f, "{} is in use", named(image)),
            Failure::MultiAttach { .. } => write!(f, "attached to another node"),
            Failure::TimedOut { .. } => write!(f, "kubelet gave up waiting for the pod's volumes"),
            Failure::MapFailed { image, errno: code, .. } => {
                write!(f, "{} was not mapped{}", named(image), errno(code))
            }
            Failure::FeatureMismatch { image, .. } => write!(f, "the kernel lacks features of {}", named(image)),
            Failure::ClusterFeatures { .. } => write!(f, "the kernel lacks features that the cluster demands"),
            Failure::UnmapFailed { device, image, errno: code } => match device {
                Some(device) => write!(f, "{} was not unmapped{}", device.display(), errno(code)),
                None => write!(f, "{} was not unmapped{}", named(image), errno(code)),
            },
            Failure::FuseMount(mount) => write!(f, "{mount}"),
            Failure::NotRecognised => write!(f, "not recognised: {}", shortened(&self.text)),
        }
    }
}

/// Enough to find the message again.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 120;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Failure {
    /// The features that are missing, as sets for an image of which nothing else is known.
    pub(super) fn mismatch(image: Option<ImageSpec>, disable: Features, permanent: Features) -> Self {
        Self::FeatureMismatch { image, features: Unsupported { disable, permanent } }
    }
}
