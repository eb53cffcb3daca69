//! What must not compile. Beside each program are the compiler's messages, which `TRYBUILD=overwrite cargo test --test
//! compile_fail` writes anew.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Whose messages they are.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn what_would_be_wrong_does_not_compile() {
    let version = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output().unwrap();
    let programs = if version.stdout.starts_with(COMPILER.as_bytes()) {
        "tests/compile_fail/*.rs".to_owned()
    } else {
        without_messages()
    };
    trybuild::TestCases::new().compile_fail(programs);
}

/// Another compiler has other messages: it counts only that it has one for each program.
fn without_messages() -> String {
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail");
    fs::create_dir_all(&copies).unwrap();
    for entry in fs::read_dir("tests/compile_fail").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            fs::copy(&path, copies.join(path.file_name().unwrap())).unwrap();
        }
    }
    // SAFETY: this program has one test, and no other thread that looks at the environment.
    unsafe { env::set_var("TRYBUILD", "overwrite") };
    copies.join("*.rs").to_str().unwrap().to_owned()
}
