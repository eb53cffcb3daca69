//! Raw bindings to librados and librbd: the C interface of Ceph 16.2, whole, which every later release has too. The
//! crate `rbd` is the safe way in.
//!
//! All is as in C: the functions of `rados/librados.h` and `rbd/librbd.h` return a negative errno, handles are
//! `*mut c_void` of several names, which the compiler does not tell apart, and enums are integers, to which a later
//! release may add values. Ceph's headers document each item.
//!
//! # One program for Ceph 16 to 20
//!
//! A program with these bindings starts on the libraries of any release from 16.2 on. What came later is in [`newer`],
//! looked up while the program runs.
//!
//! # Features
//!
//! | feature | default | what it does | needs, to build |
//! |---|---|---|---|
//! | `list-watchers` | no | `ceph_sys_aio_list_watchers`: the watchers of any object, which C++ alone has | a C++17 compiler |
//! | `buildtime-bindgen` | no | makes the bindings from the headers found, instead of those checked in | libclang, Ceph's headers |
//!
//! With neither, the build needs librados and librbd to link to, and no header. With `buildtime-bindgen` and headers
//! later than 16.2, a program that calls one of their new functions no longer starts on older libraries.
//!
//! # Which libraries
//!
//! The linker looks for `librados.so` and `librbd.so` where it looks for all libraries; on Debian the packages
//! `librados-dev` and `librbd-dev` put them there. These variables choose others, at build time:
//!
//! | variable | meaning |
//! |---|---|
//! | `CEPH_LIB_DIR` | a directory that the linker searches first |
//! | `CEPH_INCLUDE_DIR` | a directory with `rados/` and `rbd/`, for `buildtime-bindgen` |
//! | `DOCS_RS` | set to anything: compile and link nothing of Ceph, for documentation |
//!
//! The libraries are under the LGPL 2.1 and are linked dynamically only; `NOTICE` says what the bindings were made
//! from.

mod constants;
#[cfg(feature = "list-watchers")]
mod list_watchers;
pub mod newer;

/// What the headers declare.
// The headers document it; their prose is under the LGPL, and is not copied.
#[allow(missing_docs, non_camel_case_types)]
mod bindings {
    #[cfg(not(generated_bindings))]
    include!("bindings.rs");
    #[cfg(generated_bindings)]
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;
pub use constants::*;
#[cfg(feature = "list-watchers")]
pub use list_watchers::*;
