//! A test in a process of its own: for what belongs to a process as a whole, such as its environment, its user, its
//! standard error, its memory and its forks.

use std::any::type_name;
use std::env;
use std::process::{Command, Output, Stdio};

const MARK: &str = "RBD_TEST_CHILD";

/// Runs `body` in a process of its own, which is the test that calls this once more; `set_up` may change that process's
/// environment. Gives what it wrote to standard error, once it has ended well; and in that process itself, nothing.
pub fn run<B: FnOnce()>(set_up: impl FnOnce(&mut Command), body: B) -> Option<String> {
    if env::var_os(MARK).is_some() {
        body();
        return None;
    }
    // `cluster::connect::some_test::{{closure}}`
    let (_, closure) = type_name::<B>().split_once("::").unwrap();
    let test = closure.strip_suffix("::{{closure}}").unwrap();
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=2", "100"]).arg(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(MARK, "1").stdin(Stdio::null());
    set_up(&mut command);
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && stdout.contains(" 1 passed;"), "{test}: {status}\n{stdout}\n{stderr}");
    Some(stderr.into_owned())
}
