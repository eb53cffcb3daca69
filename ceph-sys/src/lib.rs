//! Raw bindings to librados and librbd (the C interface of Ceph 16.2).

mod constants;

/// What the headers declare.
// The headers document it; their prose is under the LGPL, and is not copied.
#[allow(missing_docs, non_camel_case_types, non_upper_case_globals)]
mod bindings {
    #[cfg(not(feature = "buildtime-bindgen"))]
    include!("bindings.rs");
    #[cfg(feature = "buildtime-bindgen")]
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;
pub use constants::*;
