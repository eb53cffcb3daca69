//! The C++ shim on a librados that the real one cannot be made to be: one without the C++ function, and one whose
//! function throws.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// Builds the fake and runs the program with it, for `objects`; what it printed, line by line.
fn run_with_fake(name: &str, flags: &[&str], objects: &[&str]) -> Vec<String> {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    let versions = directory.join("versions");
    fs::write(&versions, "LIBRADOS_14.2.0 { global: rados_*; _ZN8librados*; local: *; };\n").unwrap();

    let mut compiler = Command::new(env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    if let Some(include) = env::var_os("CEPH_INCLUDE_DIR") {
        compiler.arg("-I").arg(include);
    }
    let built = compiler
        .args(["-std=c++17", "-shared", "-fPIC", "-Wl,-soname,librados.so.2"])
        .arg(format!("-Wl,--version-script={}", versions.display()))
        .args(flags)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake_librados.cpp"))
        .arg("-o")
        .arg(directory.join("librados.so.2"))
        .status()
        .unwrap();
    assert!(built.success(), "the fake librados does not compile");

    let output = Command::new(env!("CARGO_BIN_EXE_list_watchers"))
        .env("LD_LIBRARY_PATH", &directory)
        .args(["conf", "pool"])
        .args(objects)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_librados_without_the_function_costs_the_call_and_not_the_start() {
    let lines = run_with_fake("without", &["-DWITHOUT_LIST_WATCHERS"], &["two"]);
    assert_eq!(lines, ["two code=-38", "references=0"], "-ENOSYS");
}

#[test]
fn watchers_come_whole_and_no_exception_or_reference_is_left() {
    let objects = ["two", "none", "missing", "refused", "memory", "exception", "integer"];
    let lines = run_with_fake("with", &[], &objects);
    let watcher = |letter: &str, id: i64| {
        format!("two watcher={} client.{id} cookie={} timeout={}", letter.repeat(255), u64::MAX, u32::MAX)
    };
    let expected = [
        "two code=0".to_owned(),
        watcher("A", -65),
        watcher("B", -66),
        "none code=0".to_owned(),
        "missing code=-2".to_owned(),
        "refused code=-22".to_owned(),
        "memory code=-12".to_owned(),
        "exception code=-5".to_owned(),
        "integer code=-5".to_owned(),
        "references=0".to_owned(),
    ];
    assert_eq!(lines, expected);
}
