//! What an operator meets who runs the examples by hand or in a script: wrong arguments, wrong targets, and a node or a
//! shell that is not as it should be. Each failure has its status and one line that says what it is about.

use std::process::{Command, Stdio};

use crate::support::*;

const KEY: &str = "AQBRHFNlAAAAABAAo9K/oNuuDNdSqbRnkTIWhw==";

fn run_example(name: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(example(name));
    command.args(arguments).env("CEPH_CONF", share().join("ceph.conf")).stdin(Stdio::null());
    text(&command.output().unwrap())
}

/// It fails with this status and, in one line, with these words; nothing is on its standard output, and no key
/// anywhere.
fn assert_fails(name: &str, arguments: &[&str], status: i32, words: &str) {
    let (code, out, err) = run_example(name, arguments);
    let about = format!("{name} {arguments:?}: {code} {out} {err}");
    assert_eq!((code, out.as_str()), (status, ""), "{about}");
    let first = err.lines().next().unwrap_or_default();
    assert!(first.starts_with(&format!("{name}: ")) && first.contains(words), "{about}");
    assert!(!err.contains(KEY), "{about}");
}

#[test]
fn wrong_arguments_are_status_64_and_are_not_repeated() {
    let secret = format!("ro,secret={KEY}");
    let long = "a".repeat(5000);
    for (name, arguments, words) in [
        (
            "map",
            ["-o", &secret, "i"],
            "--options <OPTIONS>: read map option secret: invalid argument; unknown map option",
        ),
        ("map", ["-o", "ro\nrw", "i"], "unknown map option 'ro\\nrw'"),
        ("map", ["-o", "queue_depth=0", "i"], "invalid queue_depth value '0'"),
        ("map", ["--deadline", "0", "i"], "--deadline <SECONDS>: not a number of seconds above 0"),
        ("map", ["--pool", "a/b", "i"], "--pool <POOL>: check pool name"),
        ("map", ["--", "rbd/a\nb@c@d", "--pool=rbd"], "unexpected argument"),
        ("map", ["--read-only", "--", "a\nb@c@d"], "<SPEC>: check snapshot name"),
        ("map", ["--read-only", "--", &long], "it has 5000 bytes"),
        ("map", ["-m", "mon.example", "i"], "a host name: resolve it first"),
        ("unmap", ["--deadline", "nan", "i"], "--deadline <SECONDS>: not a number of seconds above 0"),
        ("unmap", ["--id", "4294967296", "--force"], "--id <ID>: 4294967296 is not in"),
        ("unmap", ["--image-id", "a b", "--force"], "--image-id <IMAGE_ID>: check image id"),
        ("mapped", ["--fsid", "zz", "--json"], "--fsid <FSID>: "),
        ("why_busy", ["--deadline", "1e99", "/dev/rbd0"], "--deadline <SECONDS>: not a number of seconds above 0"),
    ] {
        if words == "unexpected argument" {
            let (code, out, err) = run_example(name, &arguments);
            assert!(code == 64 && out.is_empty() && err.contains(words), "{arguments:?}: {code} {out} {err}");
            continue;
        }
        assert_fails(name, &arguments, 64, words);
    }
}

#[test]
fn a_map_says_what_the_kernel_would_not() {
    let image = TestImage::new("operated");
    let file = |name: &str, content: &str| {
        let path = share().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (empty, junk, short) = (file("empty.key", "\n"), file("junk.key", "no key!!\n"), file("short.key", "AQBRHFNl"));
    let wrong = file("wrong.keyring", &format!("[client.admin]\n key = {KEY}\n"));
    make_user("onlooker", "profile rbd-read-only");
    for (arguments, status, words) in [
        (["--keyfile", &empty, &image.0], 1, "read cephx key of client.admin: invalid argument; it is empty"),
        (["--keyfile", &junk, &image.0], 1, "it is not base64"),
        (["--keyfile", &short, &image.0], 1, "it does not hold a key of the length that it states"),
        (["--keyfile", "/nonexistent", &image.0], 1, "read key file /nonexistent"),
        (["--keyring", "/nonexistent", &image.0], 2, "read /nonexistent: not found"),
        (["--conf", "/nonexistent", &image.0], 2, "read /nonexistent: not found"),
        (["--keyring", &wrong, &image.0], 13, "the cluster does not know the user, or the key is wrong"),
        (["--id", "onlooker", &image.0], 1, "map read-only"),
        (["--id", "admin,secret=x", &image.0], 1, "read key of client.admin,secret=x: not found"),
        (["--read-only", "--", "a b"], 1, "invalid name: it contains ' '"),
        (["--read-only", "--", "rbd/ns,x/i"], 1, "invalid name: it contains ','"),
        (["--read-only", "--", "-none"], 2, "map image rbd/-none: not found"),
    ] {
        assert_fails("map", &arguments, status, words);
    }
    // The errno does not tell what is missing; the kernel's log does.
    for (spec, missing) in [
        ("rbd/none-such", "image rbd/none-such does not exist"),
        ("none-such/i", "pool none-such does not exist"),
        ("rbd/operated@none-such", "none-such"),
        ("rbd/none-such/operated", "none-such"),
    ] {
        let (code, _, err) = run_example("map", &[spec]);
        let logged = err.lines().skip(1).collect::<Vec<_>>().join("\n");
        assert!(code == 2 && logged.contains("perhaps of another map") && logged.contains(missing), "{spec}: {err}");
    }
}

#[test]
fn an_unmap_of_something_else_says_what_that_is() {
    let image = TestImage::new("aimed");
    let device = image.map("").unwrap();
    run("udevadm", &["settle"]);
    run("modprobe", &["loop"]);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("file"), "").unwrap();
    std::os::unix::fs::symlink("/nonexistent", at("dangling")).unwrap();
    std::os::unix::fs::symlink(&device.node, at("link")).unwrap();
    for (target, status, words) in [
        (at("file").as_str(), 1, "file: not a block device"),
        (&at("dangling"), 2, "dangling: not found"),
        (&at("none/such"), 2, "none/such: not found"),
        ("/dev", 1, "/dev: not a block device"),
        ("/dev/null", 1, "/dev/null: not a block device"),
        ("/dev/loop0", 1, "/dev/loop0: not an rbd device; 7:0 belongs to loop0"),
        ("/dev/rbd999", 2, "/dev/rbd999: not found"),
        ("rbd/aimed@none-such", 1, "rbd/aimed@none-such: not mapped"),
        ("rbd/two\nlines", 1, "rbd/two\\nlines: not mapped"),
        ("", 1, "invalid name: it is empty"),
    ] {
        assert_fails("unmap", &[target], status, words);
    }
    assert_fails("unmap", &["--id", "999"], 1, "rbd999: not mapped");
    assert_eq!(krbd().device(device.id).unwrap().as_ref(), Some(&device));

    let second = image.map("").unwrap();
    assert_fails("unmap", &[&image.0], 1, "more than one mapping");
    unmap(&second);
    // A path from the working directory is none of an image.
    let output = Command::new(example("unmap")).arg("./link").current_dir(directory.path()).output().unwrap();
    assert_eq!(text(&output), (0, format!("unmapped {device}\n"), String::new()));
}

#[test]
fn a_busy_device_is_busy_also_with_a_deadline_and_each_of_several_is_reported() {
    let image = TestImage::new("partly");
    let (held, free) = (image.map("").unwrap(), image.map("").unwrap());
    run("udevadm", &["settle"]);
    let file = std::fs::File::open(&held.node).unwrap();
    let (code, out, err) = run_example("unmap", &[&image.0, "--if-several", "all", "--deadline", "5"]);
    drop(file);
    assert_eq!((code, out), (libc::EBUSY, format!("unmapped {free}\n")), "{err}");
    let mut lines = err.lines();
    let first = lines.next().unwrap();
    assert!(first.starts_with(&format!("unmap: unmap device {held}: busy after")), "{err}");
    assert!(first.contains("has the device open: fd") && err.contains("why_busy"), "{err}");
    unmap(&held);
}

#[test]
fn a_full_or_closed_output_is_no_panic_and_what_is_mapped_is_said() {
    let image = TestImage::new("unprinted");
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let command = |name: &str, argument: &str| {
        let mut command = Command::new(example(name));
        command.arg(argument).env("CEPH_CONF", share().join("ceph.conf"));
        command
    };
    let (code, _, err) = text(&command("map", &image.0).stdout(full()).output().unwrap());
    let device = krbd().find(image.spec()).unwrap().remove(0);
    assert_eq!(code, 1);
    assert!(err.starts_with(&format!("map: {device} is mapped; write to standard output: No space left")), "{err}");
    let (code, _, err) = text(&command("mapped", "--json").stdout(full()).output().unwrap());
    assert!(code == 1 && err.starts_with("mapped: write to standard output"), "{err}");
    for (name, argument) in [("map", "rbd/none-such"), ("unmap", "rbd/none-such"), ("why_busy", "/dev/none-such")] {
        let status = command(name, argument).stderr(full()).status().unwrap();
        assert!(matches!(status.code(), Some(1 | 2)), "{name}: {status}");
    }
    // All three closed: the first files that are opened get their numbers.
    let mut unmap = Command::new("sh");
    unmap.args(["-c", "exec \"$@\" <&- >&- 2>&-", "sh"]).arg(example("unmap")).args([&image.0, "--deadline", "100"]);
    assert_eq!(unmap.status().unwrap().code(), Some(0));
    assert_eq!(krbd().device(device.id).unwrap(), None);
}

#[test]
fn a_node_that_is_missing_from_a_container_still_names_the_device() {
    let image = TestImage::new("nodeless");
    let device = image.map("").unwrap();
    let words = format!("mount -t tmpfs none /dev && exec {} {}", example("unmap").display(), device.node.display());
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &words]).output().unwrap();
    assert_eq!(text(&output), (0, format!("unmapped {device}\n"), String::new()));
}
