//! Links librados and librbd, and generates what the features ask for.

#[cfg(feature = "buildtime-bindgen")]
mod bindings;

use std::env;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(generated_bindings)");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/list_watchers.cpp");
    for variable in ["CEPH_LIB_DIR", "CEPH_INCLUDE_DIR", "DOCS_RS"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    // docs.rs has neither the libraries nor the headers, and links nothing.
    if env::var_os("DOCS_RS").is_some() {
        return;
    }

    #[cfg(feature = "buildtime-bindgen")]
    {
        bindings::generate();
        println!("cargo::rustc-cfg=generated_bindings");
    }

    // Before the libraries: a linker may take symbols only for what it has seen.
    #[cfg(feature = "list-watchers")]
    cc::Build::new().cpp(true).std("c++17").file("src/list_watchers.cpp").compile("ceph_sys_list_watchers");

    if let Ok(directory) = env::var("CEPH_LIB_DIR") {
        println!("cargo::rustc-link-search=native={directory}");
    }
    println!("cargo::rustc-link-lib=dylib=rbd");
    println!("cargo::rustc-link-lib=dylib=rados");
}
