//! A connection to a cluster, its pools and their objects.
//!
//! # Handles
//!
//! | handle | Clone | Send, Sync | why that is sound | closed by | on which thread |
//! |---|---|---|---|---|---|
//! | [`Cluster`] (`rados_t`) | shares | yes | `librados.h` demands no synchronisation, `RadosClient` has its own lock; stress test with 64 threads | the last handle of the connection, pools and images included, or [`Cluster::disconnect`] | see below |
//! | [`Pool`] (`rados_ioctx_t`) | shares | yes | `librados.h`: only changes of its settings need synchronisation, and they are made before it is shared | its last clone and the images opened in it | any: it waits for nothing |
//! | [`Image`](crate::Image) (`rbd_image_t`) | shares | yes | `librbd.h` is silent; each call takes the image's own locks in the source; stress test under the address sanitizer | its last clone, or [`Image::close`](crate::Image::close), which tells of errors | see below |
//!
//! Every handle keeps those above it alive, so they can be dropped in any order. Closing may block (librbd writes back
//! what it holds). It happens on the thread that drops the last handle, with two exceptions: where that is inside a
//! callback of a C library, on a thread made for it; and where a call outlasted its deadline, on that call's thread
//! when it comes back. Calls inside a callback are an error (`Busy`), since they might wait for that very thread. A
//! process made by `fork` inherits memory but none of the libraries' threads: there every call is an error
//! (`NotConnected`), and handles are leaked rather than closed.
//!
//! # Deadlines
//!
//! Most calls of the C libraries cannot be interrupted. One with a deadline runs on a thread of the connection's; when
//! the deadline passes, the caller gets `TimedOut` with [`Details::StillRunning`](crate::Details::StillRunning), and
//! the thread goes on until the library lets it go. What it returns then is dropped. A process can end meanwhile.
//!
//! Questions about one object ([`Pool::stat`], [`Pool::read`], [`Pool::list_watchers`]) are made on the caller's thread
//! and withdrawn when their deadline passes (`rados_aio_cancel`): `TimedOut`, and nothing goes on.
//!
//! # Errors
//!
//! What any call that asks the cluster may fail with, and is said here once:
//!
//! - `TimedOut`: the deadline has passed.
//! - `PermissionDenied`: the user's capabilities do not allow it.
//! - `Blocklisted`: the cluster has refused this connection because its client is on the blocklist. From then on every
//!   call fails so, at once. Taking the client off the list does not mend it: drop the handles and connect again.
//! - `NotConnected`: the handle was inherited through `fork`.
//! - `Busy`: the call was made inside a callback, or a thread for it could not be had.
//! - `InvalidData`: the answer makes no sense.

mod arguments;
mod blocklist;
pub(crate) mod builder;
mod cluster;
mod command;
pub(crate) mod connection;
mod notify;
mod pool;
mod timer;
pub(crate) mod watcher;
mod worker;

pub use blocklist::BlocklistEntry;
pub use builder::ClusterBuilder;
pub use cluster::Cluster;
pub use command::{CommandOutput, PoolOptions};
pub use notify::{Acknowledgement, NotifyReply, Watch};
pub use pool::{ObjectStat, OmapPage, Pool};
