//! Tests against a real Ceph cluster: `tests/run cluster` starts one and runs them.

mod child;
mod cluster;
mod connect;
mod dropin;
mod features;
mod faults;
mod ground;
mod images;
mod info;
mod library;
mod listing;
mod locks;
mod object_map;
mod objects;
mod support;
mod watchers;
