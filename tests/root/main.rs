//! What needs root and a Linux machine: loop devices, mounts and namespaces of its own, which are gone afterwards.
//! `tests/run root` runs it; plain `cargo test` leaves it out.

mod holder;
mod machine;
mod release;
