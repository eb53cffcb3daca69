//! What kubelet prints, as a user of the library meets it.

mod fuse;
mod messages;
mod provision;
mod volume;
mod wrapping;
