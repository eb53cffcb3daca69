//! Map and unmap with checks before and explanations after.
//!
//! [`Krbd`](crate::krbd::Krbd) needs to be told everything and knows only the kernel's errno. `Attach` asks the cluster
//! (feature `librados`): monitors from the live monmap, the key of the connection's own user, and whether this image
//! can be mapped in this way by this kernel at all. [`Detach`] unmaps, and says who keeps a busy device; it needs no
//! cluster.
//!
#![cfg_attr(feature = "librados", doc = "```no_run")]
#![cfg_attr(not(feature = "librados"), doc = "```ignore")]
//! use rbd::krbd::{Krbd, MapOptions, UnmapOptions};
//! use rbd::{Attach, Cluster};
//!
//! let cluster = Cluster::builder().user("admin").connect()?;
//! let attach = Attach::new(&cluster, &Krbd::new());
//! let device = attach.map(&"kube/pvc-1".parse()?, &MapOptions::new())?;
//! println!("{}", device.node.display());
//! attach.unmap(&device, &UnmapOptions::new())?;
//! # Ok::<(), rbd::Error>(())
//! ```

mod cause;
mod detach;
mod kernel_log;

#[cfg(feature = "librados")]
mod check;
#[cfg(feature = "librados")]
mod explain;
#[cfg(feature = "librados")]
mod request;
#[cfg(feature = "librados")]
mod with_cluster;

pub use cause::{Cause, Explanation, Support};
pub use detach::Detach;
pub use kernel_log::KernelLog;
#[cfg(feature = "librados")]
pub use with_cluster::Attach;
