//! What kubelet prints, explained: text in, values and advice out; and an image as a volume: [`provision`]. It asks no
//! API server.
//!
//! [`FailureMessage`] reads what kubelet and the attach controller print when a volume cannot be attached, mapped,
//! mounted or unmapped, from a log, from `kubectl describe` or from a mail that has broken its lines.
//! [`FailureMessage::explain`] says what is behind it, what to check and what to change.
//!
//! ```
//! use rbd::kubernetes::{Failure, FailureMessage};
//!
//! let text = r#"MountVolume.WaitForAttach failed for volume "pvc-1" : rbd image kube/pvc-1 is still being used"#;
//! let message = FailureMessage::parse(text);
//! assert_eq!(message.volume.as_deref(), Some("pvc-1"));
//! assert_eq!(message.image().unwrap().to_string(), "kube/pvc-1");
//! println!("{}", message.explain());
//! ```

mod advice;
mod event;
mod flat;
mod fuse;
mod message;
mod parse;
pub mod provision;
mod replace;
mod volume;
mod yaml;

pub use advice::Advice;
pub use fuse::{CacheReport, CacheVerdict, DiskSpace, FuseComplaint, FuseMount, FuseOptions, FuseTool};
pub use message::{Failure, FailureMessage};
pub use replace::{Replacement, ReplacementStep};
pub use volume::VolumeManifest;
