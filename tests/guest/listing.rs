//! The module, and what is listed of images that were cloned, resized, renamed or removed, and of another cluster.

use rbd::krbd::{ModuleState, SysfsAccess, Target, UnmapOptions};
use rbd::{ErrorKind, Features};

use crate::support::*;

#[test]
fn before_the_module_is_loaded_nothing_is_mistaken_for_an_empty_list() {
    let before = before();
    assert_eq!((before.list, before.map), (ErrorKind::ModuleNotLoaded, ErrorKind::ModuleNotLoaded));
    assert_eq!(before.preflight.module, ModuleState::NotLoaded);
    assert_eq!(before.preflight.sysfs, SysfsAccess::Missing);
    assert_eq!(before.preflight.obstacles(), ["the kernel's rbd module is not loaded"]);
}

#[test]
fn with_the_module_and_as_root_nothing_stands_in_the_way() {
    let krbd = krbd();
    assert_eq!(krbd.module(), ModuleState::Loaded { single_major: Some(true) });
    assert_eq!(krbd.preflight().obstacles(), Vec::<&str>::new());
    assert!(krbd.can_map());
    let features = krbd.supported_features().unwrap().unwrap();
    assert!(
        features.contains(Features::LAYERING | Features::EXCLUSIVE_LOCK) && !features.contains(Features::JOURNALING)
    );
}

#[test]
fn a_clone_has_its_parents() {
    let image = TestImage::new("golden");
    rbd(&["snap", "create", "rbd/golden@s"]);
    rbd(&["snap", "protect", "rbd/golden@s"]);
    rbd(&["clone", "rbd/golden@s", "rbd/child"]);
    let device = krbd().map(&request("rbd/child")).unwrap();
    assert_eq!(device.parents.len(), 1, "{device:?}");
    let parent = &device.parents[0];
    assert_eq!(
        (parent.image.to_str(), parent.snapshot.to_str(), parent.overlap),
        (Some("golden"), Some("s"), 64 << 20)
    );
    unmap(&device);
    drop(image);
}

#[test]
fn a_resize_of_the_image_reaches_the_device() {
    let image = TestImage::new("grows");
    let device = image.map("").unwrap();
    rbd(&["resize", "--no-progress", "--size", "128M", &image.0]);
    let size = krbd().wait_for_size(&device, PATIENCE, |size| size == 128 << 20);
    assert_eq!(size.unwrap(), 128 << 20);
    unmap(&device);
}

#[test]
fn an_image_that_was_renamed_or_moved_to_the_trash_is_still_found_by_its_id() {
    let image = TestImage::new("before");
    let device = image.map("").unwrap();
    let id = device.image_id.clone().unwrap();
    rbd(&["rename", "rbd/before", "rbd/after"]);
    assert_eq!(krbd().find(id.clone()).unwrap(), std::slice::from_ref(&device));
    let after: rbd::ImageSpec = "rbd/after".parse().unwrap();
    assert_eq!(krbd().unmap(&after, &UnmapOptions::new()).unwrap_err().kind(), ErrorKind::NotMapped);
    let target = Target::from(id).of_cluster(device.fsid.unwrap());
    assert_eq!(krbd().unmap(target, &UnmapOptions::new()).unwrap()[0].device.id, device.id);

    // A read-only map has no watch, which would keep the image from the trash and from being removed.
    let device = krbd().map(&request("rbd/after").options(options("ro"))).unwrap();
    rbd(&["trash", "mv", "rbd/after"]);
    rbd(&["trash", "rm", "--no-progress", device.image_id.as_ref().unwrap().as_str()]);
    unmap(&device);
}

#[test]
fn an_image_of_format_1_has_neither_id_nor_features() {
    outside(&["env", "RBD_FORCE_ALLOW_V1=1", "rbd", "create", "--image-format", "1", "--size", "64M", "rbd/format1"]);
    let device = krbd().map(&request("rbd/format1")).unwrap();
    assert_eq!(device.image_id, None);
    assert_eq!(device.features, Some(Features::empty()));
    unmap(&device);
}

#[test]
fn two_clusters_with_the_same_names_are_told_apart() {
    let image = TestImage::new("both");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/dev-cluster");
    let second = format!("{}-second", std::env::var("RBD_TEST_CLUSTER").unwrap());
    outside(&[script, "start", &second, "--addr", "127.0.0.2", "--store", "memstore"]);
    let in_second = |words: &[&str]| outside(&[&["env", &format!("CEPH_CONF={second}/ceph.conf")], words].concat());
    in_second(&["rbd", "create", "--size", "64M", "rbd/both"]);
    let config = rbd::config::Config::parse(&in_second(&["cat", &format!("{second}/ceph.conf")])).unwrap();
    let keyring = share().join("second.keyring");
    std::fs::write(&keyring, in_second(&["cat", &format!("{second}/keyring")])).unwrap();
    let credentials = config.credentials_in(keyring).unwrap();

    let first = image.map("").unwrap();
    let other = rbd::krbd::MapRequest::new(config.monitors().unwrap(), credentials, image.spec());
    let other = krbd().map(&other).unwrap();
    let error = krbd().unmap(image.spec(), &UnmapOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous);
    let target = Target::from(image.spec()).of_cluster(config.fsid().unwrap().unwrap());
    assert_eq!(krbd().unmap(target, &UnmapOptions::new()).unwrap()[0].device.id, other.id);
    assert_eq!(krbd().find(image.spec()).unwrap(), std::slice::from_ref(&first));
    unmap(&first);
    outside(&[script, "destroy", &second]);
}
