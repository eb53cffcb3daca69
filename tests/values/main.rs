//! The values as a user of the library meets them: names, addresses, features, watchers and locks. No I/O.

mod addresses;
mod features;
mod names;
mod watchers;
