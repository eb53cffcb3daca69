//! Addresses of clients, daemons and monitors, as Ceph and the kernel spell them.

mod entity;
mod monitors;

pub use entity::{EntityAddress, Protocol};
pub use monitors::MonitorAddresses;
#[cfg(feature = "librados")]
pub(crate) use monitors::host_names;
