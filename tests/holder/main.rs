//! Who holds a device, on trees that stand for proc and sysfs: no privilege is needed, and every case can be made.

mod devices;
mod limits;
mod mounts;
mod processes;
mod remedies;
mod text;
mod tree;
