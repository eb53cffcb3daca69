//! The bindings, from the headers. `update-bindings.sh` checks in what this writes.

use std::path::PathBuf;
use std::{env, fs};

use bindgen::callbacks::{DeriveTrait, ImplementsTrait, IntKind, ParseCallbacks};
use bindgen::{Builder, EnumVariation, Formatter, RustTarget};

/// Types of the C library that the headers mention. The crate `libc` has them.
const LIBC_TYPES: [&str; 4] = ["iovec", "time_t", "timespec", "timeval"];

/// Writes `bindings.rs` to `OUT_DIR`.
pub fn generate() {
    let mut builder = Builder::default()
        .header_contents("ceph.h", "#include <rados/librados.h>\n#include <rbd/librbd.h>\n")
        .allowlist_file(".*/(rados|rbd)/[a-z_]+\\.h")
        .parse_callbacks(Box::new(Types))
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .blocklist_type("__.*")
        .raw_line(format!("use libc::{{{}}};", LIBC_TYPES.join(", ")))
        // A later release adds values, and a Rust enum with a value that it does not know is undefined behaviour.
        .default_enum_style(EnumVariation::Consts)
        .prepend_enum_name(false)
        // The headers' prose is under the LGPL.
        .generate_comments(false)
        // They hold on one architecture only; `systest` checks the layouts.
        .layout_tests(false)
        .generate_cstr(true)
        .merge_extern_blocks(true)
        .formatter(Formatter::None)
        .use_core()
        .rust_target(RustTarget::stable(88, 0).expect("bindgen knows Rust 1.88"));
    for name in LIBC_TYPES {
        builder = builder.blocklist_type(name);
    }
    if let Ok(directory) = env::var("CEPH_INCLUDE_DIR") {
        builder = builder.clang_arg(format!("-I{directory}"));
    }

    let bindings = builder.generate().expect(
        "the headers rados/librados.h and rbd/librbd.h: install librados-dev and librbd-dev, or set CEPH_INCLUDE_DIR",
    );
    let directory = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(directory.join("bindings.rs"), without_numbered_types(&bindings.to_string()))
        .expect("OUT_DIR takes a file");
}

/// Types the constants of C's anonymous enums as what they are. bindgen makes names for those enums, with numbers
/// that depend on the system's headers.
fn without_numbered_types(bindings: &str) -> String {
    const C_UINT: &str = ":: core :: ffi :: c_uint";
    let mut pieces = bindings.split("_bindgen_ty_");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        text.push_str(C_UINT);
        text.push_str(piece.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    text.replace(&format!("pub type {C_UINT} = {C_UINT} ;"), "")
}

/// Gives constants the type of the arguments that they are for.
#[derive(Debug)]
struct Types;

impl ParseCallbacks for Types {
    fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
        let begins_with = |prefix| name.starts_with(prefix);
        if begins_with("RBD_FEATURE") || begins_with("RBD_OPERATION_FEATURE") || begins_with("RBD_FLAG_") {
            Some(IntKind::U64)
        } else if begins_with("LIBRADOS_LOCK_FLAG_") {
            Some(IntKind::U8)
        } else if begins_with("LIBRADOS_CREATE_") {
            Some(IntKind::Int)
        } else {
            None
        }
    }

    fn blocklisted_type_implements_trait(&self, _name: &str, derive_trait: DeriveTrait) -> Option<ImplementsTrait> {
        matches!(derive_trait, DeriveTrait::Copy | DeriveTrait::Debug).then_some(ImplementsTrait::Yes)
    }
}
