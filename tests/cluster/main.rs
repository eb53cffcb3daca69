//! Tests against a real Ceph cluster: `tests/run cluster` starts one and runs them.

mod child;
mod cluster;
mod connect;
mod dropin;
mod examples;
mod faults;
mod features;
mod fence;
mod forks;
mod ground;
mod handles;
mod images;
mod info;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod ledger;
mod library;
mod listing;
mod locks;
mod object_map;
mod objects;
mod raw;
mod support;
mod threads;
mod usage;
mod watchers;
