//! The small examples, as a shell would run them.

use std::fs::File;
use std::io::{BufRead, BufReader, pipe};
use std::process::{Output, Stdio};

use rbd::Features;
use rbd::image::ImageOptions;

use super::library::{OwnPool, image};
use super::support::{TestCluster, example};

fn run(name: &str, args: &[&str], stdout: impl Into<Stdio>) -> Output {
    TestCluster::shared().command(example(name).to_str().unwrap(), args).stdout(stdout).output().unwrap()
}

#[track_caller]
fn assert_said(output: &Output, status: i32, stderr: &str) {
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(status), stderr));
}

/// Runs it with an output that nobody reads, and with one that is full.
#[track_caller]
fn assert_bears_a_broken_output(name: &str, args: &[&str]) {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    assert_said(&run(name, args, writer), 0, "");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let stderr = "error: write to standard output: No space left on device (os error 28)\n";
    assert_said(&run(name, args, full), 1, stderr);
}

#[test]
fn an_output_that_nobody_reads_is_no_failure_and_a_full_one_is() {
    let pool = OwnPool::new();
    pool.create_image(&image("image"), 8 << 20, &ImageOptions::new()).unwrap();
    let spec = pool.spec("image");
    for name in ["image_info", "image_users", "list_watchers"] {
        assert_bears_a_broken_output(name, &[&spec]);
        assert_bears_a_broken_output(name, &[&spec, "--json"]);
    }
    assert_bears_a_broken_output("feature_disable", &[&spec, "fast-diff", "--cascade", "--dry-run"]);

    let (reader, writer) = pipe().unwrap();
    drop(reader);
    assert_said(&run("feature_disable", &[&spec, "fast-diff", "--cascade"], writer), 0, "");
    assert!(!pool.open_read_only("image").unwrap().features().unwrap().contains(Features::FAST_DIFF));
}

#[test]
fn image_users_counts_clients_and_not_their_handles() {
    let pool = OwnPool::new();
    pool.create_image(&image("image"), 8 << 20, &ImageOptions::new()).unwrap();
    let said = || {
        let output = run("image_users", &[&pool.spec("image")], Stdio::piped());
        assert_said(&output, 0, "");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(said().contains(" is used by nobody that can be seen\n"), "{}", said());
    let _handles = [pool.open("image").unwrap(), pool.open("image").unwrap()];
    assert!(said().contains(" is used by 1 client\n") && said().contains("its 2 watches end"), "{}", said());
    let _holder = TestCluster::shared().lock_image(&pool.spec("image"));
    assert!(said().contains(" is used by 2 clients\n") && said().contains("it holds the lock\n"), "{}", said());
}

#[test]
fn image_users_watches_until_nobody_reads_any_more() {
    let pool = OwnPool::new();
    pool.create_image(&image("image"), 8 << 20, &ImageOptions::new()).unwrap();
    let arguments = [&*pool.spec("image"), "--watch", "--json"];
    let mut command = TestCluster::shared().command(example("image_users").to_str().unwrap(), arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut clients = || {
        let usage: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        usage["clients"].as_array().unwrap().len()
    };
    assert_eq!(clients(), 0);
    let opened = pool.open("image").unwrap();
    assert!((0..10).any(|_| clients() == 1));
    drop(opened);
    assert!((0..10).any(|_| clients() == 0));
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn feature_disable_wants_a_feature() {
    let output = run("feature_disable", &["rbd/image", ","], Stdio::piped());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("it names no feature"), "{output:?}");
}

#[test]
fn feature_disable_names_who_took_a_lock_by_hand() {
    let pool = OwnPool::new();
    pool.create_image(&image("image"), 8 << 20, &ImageOptions::new()).unwrap();
    let spec = pool.spec("image");
    TestCluster::shared().rbd(["lock", "add", &spec, "by hand"]);
    let locker = pool.open_read_only("image").unwrap().lockers().unwrap().pop().unwrap();
    let output = run("feature_disable", &[&spec, "fast-diff", "--cascade"], Stdio::piped());
    assert_eq!(output.status.code(), Some(1));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains(&format!("the lock is held by {}", locker.address)), "{output:?}");
}
