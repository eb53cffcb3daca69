//! A volume for Kubernetes out of an image: the pool and the image, and the manifests that a cluster of Kubernetes
//! needs to use it.
//!
//! ```
//! use rbd::Secret;
//! use rbd::kubernetes::provision::{ImageVolume, Plugin};
//!
//! let volume = ImageVolume::new(&"kube/pvc-1".parse()?, 10 << 30)?.namespace("prod")?;
//! let plugin = Plugin::csi("b9127830-b0cc-4e34-aa47-9d1a2e9949a8");
//! let key = Secret::new("AQBRHFNlAAAAABAAAAECAwQFBgcICQoLDA0ODw==");
//! let manifests = volume.manifests(&plugin, "kube", &key)?;
//! println!("{manifests}"); // without the key
//! assert!(manifests.to_yaml_with_key()?.contains("userKey: 'QVFCUkhG"));
//! # Ok::<(), rbd::Error>(())
//! ```
//!
//! `Provision` (feature `librados`) makes the pool and the image first.

#[cfg(feature = "librados")]
mod cluster;
mod features;
mod manifests;
mod name;
mod plugin;
mod secret;
mod volume;

#[cfg(feature = "librados")]
pub use cluster::{Provision, Provisioned};
pub use features::mappable_features;
pub use manifests::Manifests;
pub use plugin::Plugin;
pub use volume::{AccessMode, ImageVolume};
