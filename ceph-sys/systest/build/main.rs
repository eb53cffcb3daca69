//! Writes two tables of the same length: what the Rust declarations of ceph-sys say of each constant, struct, field,
//! type and function, and what the C++ compiler says of the same thing in the installed headers. `tests/headers.rs`
//! compares them.

mod cpp;
mod items;

use std::path::Path;
use std::{env, fs};

use items::{Table, newer_functions, public_items};

fn main() {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=CEPH_INCLUDE_DIR");

    let mut table = Table::default();
    for file in ["bindings.rs", "constants.rs"] {
        table.items(&public_items(&source(file)), "ceph_sys", None);
    }
    let newer = source("newer.rs");
    table.items(&public_items(&newer), "ceph_sys::newer", Some("20.2"));
    for (release, function) in newer_functions(&newer) {
        table.newer_function(&function, &release);
    }

    let directory = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let directory = Path::new(&directory);
    fs::write(directory.join("table.rs"), format!("vec![\n{}]", table.rust)).expect("OUT_DIR takes a file");
    fs::write(directory.join("table.cpp"), cpp::file(&table.cpp)).expect("OUT_DIR takes a file");

    let mut build = cc::Build::new();
    if let Ok(include) = env::var("CEPH_INCLUDE_DIR") {
        build.include(include);
    }
    build
        .cpp(true)
        .std("c++17")
        .flag("-Wno-deprecated-declarations")
        .file(directory.join("table.cpp"))
        .compile("systest_table");
}

fn source(file: &str) -> syn::File {
    let path = Path::new("../src").join(file);
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
