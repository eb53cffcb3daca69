//! The example `rbd` against the real one on the real driver: the same story, with the same output, messages and
//! statuses, and the same options in the kernel.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// The example that was built with this program.
fn dropin() -> PathBuf {
    let program = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/rbd");
    assert!(program.exists(), "{} is not built: cargo build --example rbd", program.display());
    program
}

/// Status, standard output and standard error, without the log lines of Ceph's libraries.
fn said(program: &Path, line: &str) -> (i32, String, String) {
    let mut command = Command::new(program);
    command.args(line.split(' ')).env("CEPH_CONF", share().join("ceph.conf"));
    let output = command.env("CEPH_ARGS", "--err_to_stderr=false --log_to_stderr=false").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The options of a mapping, without the monitors before and the names behind; the key's name among them.
fn options_in_kernel(id: &str) -> String {
    let config = fs::read_to_string(format!("/sys/bus/rbd/devices/{id}/config_info")).unwrap();
    config.split(' ').nth(1).unwrap().to_owned()
}

fn tell(program: &Path) -> Vec<(&'static str, (i32, String, String))> {
    let mut open = None;
    let steps = include_str!("dropin.cases").lines().filter(|line| !line.starts_with('#'));
    let told = steps.map(|line| {
        let result = match line.split_once(' ') {
            Some(("config", id)) => (0, options_in_kernel(id), String::new()),
            None if line == "open" => {
                open = Some(File::open("/dev/rbd0").unwrap());
                Default::default()
            }
            None if line == "close" => {
                open = None;
                Default::default()
            }
            _ => said(program, line),
        };
        (line, result)
    });
    told.collect()
}

#[test]
fn the_drop_in_tells_the_same_story_as_rbd() {
    let krbd = krbd();
    let image = TestImage::new("i");
    rbd(&["snap", "create", "--no-progress", "rbd/i@s"]);
    rbd(&["namespace", "create", "rbd/n"]);
    let others = [
        TestImage::new("default"),
        TestImage::new("foo*"),
        TestImage::new("a,b"),
        TestImage::with("rbd/dirty", &["--image-feature", "layering"]),
        TestImage::with("rbd/n/i", &[]),
        TestImage::with("rbd/journal", &["--image-feature", "layering,exclusive-lock,journaling"]),
    ];
    rbd(&["config", "image", "set", "rbd/default", "rbd_default_map_options", "queue_depth=32,lock_timeout=5"]);
    // Layering and the bit of the feature, as librbd's cache sets it.
    let set_features = r"id=$(rbd info rbd/dirty | sed -n 's/.*block_name_prefix: rbd_data.//p') &&
        printf '\1\10\0\0\0\0\0\0' | rados -p rbd setomapval rbd_header.$id features";
    outside(&["sh", "-c", set_features]);
    make_user("reader", "profile rbd-read-only");
    assert_eq!(krbd.list().unwrap(), []);
    let original = tell(Path::new("rbd"));
    assert_eq!(krbd.list().unwrap(), []);
    let ours = tell(&dropin());
    let different: Vec<_> = original.iter().zip(&ours).filter(|(original, ours)| original != ours).collect();
    assert!(different.is_empty(), "{} of {} steps: {different:#?}", different.len(), ours.len());
    drop((image, others));
}

/// udev lists `/sys/devices/rbd/10` before `/sys/devices/rbd/2`.
#[test]
fn more_than_ten_devices_are_listed_in_the_same_order() {
    let image = TestImage::new("many");
    for _ in 0..12 {
        image.map("").unwrap();
    }
    for line in ["device list", "device list --format json"] {
        assert_eq!(said(&dropin(), line), said(Path::new("rbd"), line));
    }
}

#[test]
fn those_that_unmap_at_once_unmap_what_they_name() {
    let image = TestImage::new("raced");
    let mut mapped: Vec<_> = (0..4).map(|_| image.map("").unwrap().node).collect();
    let unmappers: Vec<_> = (0..3).map(|_| std::thread::spawn(|| said(&dropin(), "unmap raced"))).collect();
    for unmapper in unmappers {
        let (status, _, err) = unmapper.join().unwrap();
        if status == 0 {
            let named = mapped.iter().position(|node| err.contains(&format!("unmapping {} only", node.display())));
            mapped.remove(named.unwrap_or_else(|| panic!("{err}")));
        }
    }
    assert_eq!(krbd().list().unwrap().into_iter().map(|device| device.node).collect::<Vec<_>>(), mapped);
}
