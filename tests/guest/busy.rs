//! Devices that are busy, and what is meant by a device.

use std::fs;
use std::path::Path;
use std::time::Instant;

use rbd::krbd::{Stage, UnmapOptions};
use rbd::{Details, ErrorKind};

use crate::support::*;

fn assert_busy(device: &rbd::krbd::Device, holder: &str) {
    let error = krbd().unmap(device, &UnmapOptions::new().busy_retries(2)).unwrap_err();
    assert_eq!(
        (error.kind(), error.errno(), error.stage()),
        (ErrorKind::Busy, Some(libc::EBUSY), Some(Stage::Write)),
        "{holder}"
    );
    assert_eq!(*error.details(), Details::Attempts(3));
}

#[test]
fn a_device_that_is_open_mounted_or_under_loop_or_dm_is_busy() {
    let image = TestImage::new("held");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();

    let file = fs::File::open(&device.node).unwrap();
    assert_busy(&device, "open");
    drop(file);

    let mount_point = mount_new(node);
    let at = mount_point.path().to_str().unwrap();
    assert_busy(&device, "mounted");
    run("umount", &[at]);

    run("modprobe", &["loop"]);
    let looped = run("losetup", &["--find", "--show", node]);
    assert_busy(&device, "loop");
    let error = krbd().unmap(Path::new(looped.trim()), &UnmapOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotRbdDevice);
    run("losetup", &["--detach", looped.trim()]);

    run("modprobe", &["dm_mod"]);
    let table = format!("0 2048 linear {node} 0");
    run("dmsetup", &["create", "--noudevsync", "--table", &table, "over-rbd"]);
    assert_busy(&device, "dm");
    run("dmsetup", &["remove", "--noudevsync", "--retry", "over-rbd"]);
    unmap(&device);
}

#[test]
fn force_takes_a_mounted_device_away_and_leaves_the_mount() {
    let image = TestImage::new("forced");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let mount_point = mount_new(node);
    let at = mount_point.path().to_str().unwrap();
    let start = Instant::now();
    krbd().unmap(&device, &UnmapOptions::new().force().deadline(PATIENCE)).unwrap();
    println!("unmapped by force in {:?}", start.elapsed());
    assert_eq!(krbd().device(device.id).unwrap(), None);
    assert!(!device.node.exists());
    assert_eq!(image.watchers(), "Watchers: none\n");
    assert!(fs::read_to_string("/proc/self/mountinfo").unwrap().contains(at));
    run("umount", &[at]);
}

#[test]
fn an_unmap_right_after_a_map_waits_for_udevs_probe() {
    let image = TestImage::new("probed");
    let mut attempts = Vec::new();
    let mut times = Vec::new();
    for _ in 0..10 {
        let device = image.map("").unwrap();
        let start = Instant::now();
        attempts.push(unmap(&device));
        times.push(start.elapsed().as_millis());
    }
    println!("attempts {attempts:?}, milliseconds {times:?}");
}

#[test]
fn a_device_is_meant_by_its_node_its_partitions_its_link_its_id_and_its_image() {
    let image = TestImage::new("parted");
    let device = image.map("").unwrap();
    let script = share().join("parts");
    fs::write(&script, "label: gpt\nsize=8M\nsize=8M\nsize=8M\nsize=8M\nsize=8M\n").unwrap();
    run("sh", &["-c", &format!("sfdisk -q {} <{}", device.node.display(), script.display())]);
    unmap(&device);

    let link = "/dev/rbd/rbd/parted";
    let unmap_by = |target: rbd::krbd::Target| {
        let options = UnmapOptions::new().deadline(PATIENCE);
        krbd().unmap(target, &options).unwrap().remove(0).device
    };
    for way in ["p1", "p5", "", "link", "partition link", "id", "spec", "image id"] {
        let device = image.map("").unwrap();
        let node = device.node.to_str().unwrap().to_owned();
        until(PATIENCE, || Path::new(&format!("{node}p5")).exists().then_some(()));
        if way.contains("link") {
            until(PATIENCE, || krbd().link(&device));
        }
        let unmapped = match way {
            "link" => unmap_by(Path::new(link).into()),
            "partition link" => {
                let link = format!("{link}-part5");
                until(PATIENCE, || Path::new(&link).exists().then_some(()));
                unmap_by(Path::new(&link).into())
            }
            "id" => unmap_by(device.id.into()),
            "spec" => unmap_by(image.spec().into()),
            "image id" => unmap_by(device.image_id.clone().unwrap().into()),
            suffix => unmap_by(Path::new(&format!("{node}{suffix}")).into()),
        };
        assert_eq!(unmapped.id, device.id, "{way}");
    }
}

#[test]
fn a_regular_file_in_place_of_the_node_is_named_and_left_alone() {
    let image = TestImage::new("shadowed");
    let free = (0..).find(|id| krbd().device(*id).unwrap().is_none()).unwrap();
    let path = format!("/dev/rbd{free}");
    fs::write(&path, "left by dd").unwrap();
    let error = krbd().unmap(Path::new(&path), &UnmapOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotBlockDevice);
    let error = image.map("").unwrap_err();
    println!("{error}");
    assert_eq!((error.kind(), error.stage()), (ErrorKind::NodeUnusable, Some(Stage::Node)));
    let Details::Devices(devices) = error.details() else { panic!("{error:?}") };
    assert_eq!(devices[0].id, free);
    unmap(&devices[0]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "left by dd");
    fs::remove_file(&path).unwrap();
}
