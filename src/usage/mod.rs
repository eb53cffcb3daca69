//! Who uses an image, anywhere.
//!
//! [`Usage::of`] asks the cluster and this host at once and joins what they say: who watches the image, who holds its
//! lock, whom the cluster refuses, which devices of this host it is mapped to and who keeps those busy. Each [`Client`]
//! is one user with all that belongs to it. A [`Survey`] says more precisely what is to be asked.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use rbd::usage::{State, Survey};
//! use rbd::{Cluster, Usage};
//!
//! let cluster = Cluster::builder().user("admin").connect()?;
//! println!("{}", Usage::of(&cluster, &"kube/pvc-1".parse()?)?);
//!
//! // The same, and who of them is alive.
//! let usage = Survey::new(&cluster).ask_watchers(Duration::from_secs(3)).of(&"kube/pvc-1".parse()?)?;
//! for silent in usage.clients.iter().filter(|client| client.state == State::Silent) {
//!     println!("{silent}");
//! }
//! # Ok::<(), rbd::Error>(())
//! ```
//!
//! [`Usage::remedies`] says what can be done so that nobody uses it any more. [`Survey::wait_until_unused`] waits for
//! that, and [`Fence`] evicts a client whose node is dead:
//!
//! ```no_run
//! # use rbd::{Cluster, Usage, usage::Fence};
//! # fn main() -> rbd::Result<()> {
//! # let cluster = Cluster::builder().connect()?;
//! let spec = "kube/pvc-1".parse()?;
//! let usage = Usage::of(&cluster, &spec)?;
//! if let Some(watch) = usage.others().flat_map(|client| &client.watches).next() {
//!     // Looks again first: one that answers is refused, and so is one on this host.
//!     println!("{}", Fence::new(&cluster, *watch).run(&spec)?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What cannot be seen
//!
//! Who has an image open read-only, through librbd or mapped on another host, leaves no trace in the cluster: such
//! users are seen on their own host only, and of them the mappings. And a watch does not say that its owner writes.

mod client;
mod fence;
mod host;
mod join;
mod mirror;
mod remedy;
mod report;
#[cfg(feature = "list-watchers")]
mod scan;
mod survey;
#[cfg(test)]
mod tests;

pub use client::{Access, Client, Mapping, Place, State};
pub use fence::{Fence, FencePlan, Fenced, Suspect, unfence};
#[cfg(feature = "list-watchers")]
pub use scan::{ImageUsage, PoolUsage};
pub use survey::Survey;

use crate::error::Result;
use crate::image::ImageInfo;
use crate::name::{ImageId, ImageSpec, NamespaceName, PoolName};
use crate::rados::{Cluster, Pool};

/// Who uses an image, as far as it could be seen.
///
/// `Display` gives a tree for people, 80 columns wide where paths allow; with the feature `serde` it is `Serialize`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Usage {
    /// The image's pool.
    pub pool: PoolName,
    /// Its namespace; `None` is the default one.
    pub namespace: Option<NamespaceName>,
    /// The image.
    pub image: ImageInfo,
    /// Who uses it: those that watch it first, then those that are known by a lock or a mapping only.
    pub clients: Vec<Client>,
    /// What could not be found out.
    pub unseen: Vec<Unseen>,
}

/// Something that could not be found out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Unseen {
    /// What it is.
    pub part: Part,
    /// The error, as text.
    pub reason: String,
}

/// A part of the answer that may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Part {
    /// Who holds the image's lock.
    Locks,
    /// Who of those that watch it is alive.
    Answers,
    /// Whom the cluster refuses.
    Blocklist,
    /// Which clients are mirror daemons.
    MirrorDaemons,
    /// The mappings on this host.
    Mappings,
    /// Who keeps a mapped device busy.
    Holders,
    /// The addresses of this host.
    HostAddresses,
}

impl Usage {
    /// Who uses an image: [`Survey::of`] with nothing set.
    ///
    /// # Errors
    ///
    /// As [`Survey::of`].
    pub fn of(cluster: &Cluster, spec: &ImageSpec) -> Result<Self> {
        Survey::new(cluster).of(spec)
    }

    /// The same by the image's id, as for one that is in the trash.
    ///
    /// # Errors
    ///
    /// As [`Survey::of`].
    pub fn of_id(pool: &Pool, id: &ImageId) -> Result<Self> {
        Survey::new(&pool.cluster()).of_id(pool, id)
    }

    /// Who uses each image of a pool: [`Survey::of_pool`] with nothing set.
    #[cfg(feature = "list-watchers")]
    pub fn of_pool(pool: &Pool) -> PoolUsage {
        Survey::new(&pool.cluster()).of_pool(pool)
    }

    /// Whether anybody uses it. Only where nothing is [`unseen`](Self::unseen) does `false` come near to "nobody":
    /// readers elsewhere leave no trace.
    pub fn is_used(&self) -> bool {
        !self.clients.is_empty()
    }

    /// The clients without mirror daemons and without this program's own connection.
    pub fn others(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(|client| !client.mirror_daemon && client.place != Place::ThisProgram)
    }

    /// The image's mappings on this host.
    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.clients.iter().flat_map(|client| &client.mappings)
    }
}
