use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rbd::krbd::{ModuleState, UnmapOptions};

use crate::support::*;

fn map_command(image: &TestImage) -> Vec<String> {
    let conf = share().join("ceph.conf");
    [example("map").to_str().unwrap(), "--conf", conf.to_str().unwrap(), &image.0].map(str::to_owned).to_vec()
}

fn run_in(wrapper: &[&str], words: &[String]) -> (i32, String, String) {
    let output = Command::new(wrapper[0]).args(&wrapper[1..]).args(words).output().unwrap();
    text(&output)
}

#[test]
fn without_privilege_there_is_a_list_and_no_map() {
    let image = TestImage::new("private");
    let device = image.map("").unwrap();
    let output = Command::new(example("mapped")).arg("--json").uid(65534).gid(65534).output().unwrap();
    let (code, out, err) = text(&output);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("\"image\": \"private\"") && out.contains("\"config\": null"), "{out}");

    // Configuration and key are not what it lacks.
    for (path, mode) in [(share(), 0o755), (share().join("ceph.conf"), 0o644), (share().join("keyring"), 0o644)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let words = map_command(&image);
    let output = Command::new(&words[0]).args(&words[1..]).uid(65534).gid(65534).output().unwrap();
    let (code, _, err) = text(&output);
    assert_ne!(code, 0);
    assert!(err.contains("not privileged"), "{err}");
    unmap(&device);
}

#[test]
fn in_a_user_namespace_root_is_not_privileged() {
    let image = TestImage::new("contained");
    let (code, _, err) = run_in(&["unshare", "--user", "--map-root-user"], &map_command(&image));
    assert_ne!(code, 0);
    assert!(err.contains("not privileged"), "{err}");
}

#[test]
fn a_read_only_sysfs_is_not_a_read_only_image() {
    let image = TestImage::new("container");
    let words = map_command(&image);
    let script = format!("mount -o remount,bind,ro /sys && exec {}", words.join(" "));
    let (code, _, err) = run_in(&["unshare", "--mount", "sh", "-c"], &[script]);
    assert_ne!(code, 0);
    assert!(err.contains("/sys is read-only"), "{err}");
}

#[test]
fn from_another_network_namespace_devices_are_listed_and_unmapped() {
    let image = TestImage::new("elsewhere");
    let device = image.map("").unwrap();
    let words = [example("unmap").to_str().unwrap().to_owned(), device.node.to_str().unwrap().to_owned()];
    let (code, _, err) = run_in(&["unshare", "--net"], &words);
    assert_eq!(code, 0, "{err}");
    assert_eq!(krbd().device(device.id).unwrap(), None);
}

#[test]
fn in_another_mount_namespace_maps_work() {
    let image = TestImage::new("mounts");
    let (code, out, err) = run_in(&["unshare", "--mount"], &map_command(&image));
    assert_eq!(code, 0, "{err}");
    krbd().unmap(std::path::Path::new(out.trim()), &UnmapOptions::new()).unwrap();
}

/// A device that was taken away by force, or that udev still has open, keeps the module for a moment after it has left sysfs.
fn unload_module() {
    let unload = || Command::new("modprobe").args(["-r", "rbd"]).stderr(Stdio::null()).status().unwrap();
    until(PATIENCE, || unload().success().then_some(()));
}

#[test]
fn a_module_with_a_major_for_each_device_is_served_through_the_other_files() {
    let image = TestImage::new("majors");
    assert!(krbd().list().unwrap().is_empty());
    unload_module();
    run("modprobe", &["rbd", "single_major=N"]);
    assert_eq!(krbd().module(), ModuleState::Loaded { single_major: Some(false) });
    let devices = [image.map("").unwrap(), image.map("").unwrap()];
    assert_ne!(devices[0].number.major(), devices[1].number.major());
    for device in &devices {
        unmap(device);
    }
    unload_module();
    run("modprobe", &["rbd"]);
    assert_eq!(krbd().module(), ModuleState::Loaded { single_major: Some(true) });
}
