use proptest::prelude::*;

use super::*;

#[test]
fn every_attribute_is_read() {
    let host = Host::new();
    host.add(4, FSID_1, ["kube", "tenant", "pvc-1", "before"]);
    host.set(4, "config_info", "192.0.2.1:6789 name=admin,key=client.admin,ro,_pool_ns=tenant kube pvc-1 before");
    let parent = "pool_id 3\npool_name base\npool_ns \nimage_id aa1\nimage_name golden image\nsnap_id 4\nsnap_name s\n\
                  overlap 4096\n";
    host.set(4, "parent", &format!("{parent}\n{}", parent.replace("aa1", "bb2")));
    let block = host.root.path().join("sys/block/rbd4");
    fs::create_dir_all(&block).unwrap();
    fs::write(block.join("ro"), "1\n").unwrap();
    fs::write(block.join("diskseq"), "17\n").unwrap();

    let [device] = host.krbd().list().unwrap().try_into().unwrap();
    assert_eq!(device.id, 4);
    assert_eq!(device.node, host.root.path().join("dev/rbd4"));
    assert_eq!(device.number, crate::DeviceNumber::new(254, 64));
    assert_eq!(device.spec().unwrap().to_string(), "kube/tenant/pvc-1@before");
    assert_eq!(device.pool_id, Some(2));
    assert_eq!(device.image_id.as_ref().unwrap().as_str(), "fb236b8b4567");
    assert_eq!(device.fsid, Some(FSID_1.parse().unwrap()));
    assert_eq!(device.client_address, Some("192.0.2.10:0/1570937743".parse().unwrap()));
    assert_eq!(device.client_id, Some(4115));
    assert_eq!(device.size, 1 << 30);
    assert_eq!(device.read_only, Some(true));
    assert_eq!(device.features, Some(Features::from_bits_retain(0x3d)));
    assert_eq!(device.config.as_ref().unwrap().user(), Some("admin"));
    assert_eq!(device.disk_sequence, Some(17));
    let parents: Vec<_> = device.parents.iter().map(|p| (p.image_id.as_str(), p.image.to_str(), p.overlap)).collect();
    assert_eq!(parents, [("aa1", Some("golden image"), 4096), ("bb2", Some("golden image"), 4096)]);
}

#[test]
fn what_an_old_kernel_does_not_show_is_none() {
    let host = Host::new();
    host.add(0, FSID_1, ["rbd", "", "a", "-"]);
    for attribute in
        ["pool_ns", "minor", "client_addr", "cluster_fsid", "image_id", "snap_id", "pool_id", "parent", "features"]
    {
        fs::remove_file(host.directory(0).join(attribute)).unwrap();
    }
    let device = host.krbd().device(0).unwrap().unwrap();
    assert_eq!(device.spec().unwrap().to_string(), "rbd/a");
    assert_eq!(device.number, crate::DeviceNumber::new(254, 0));
    assert_eq!((device.client_address, device.fsid, device.image_id), (None, None, None));
    assert!(device.parents.is_empty());
}

#[test]
fn an_entry_that_vanishes_is_skipped() {
    let host = Host::new();
    host.add(0, FSID_1, ["rbd", "", "a", "-"]);
    fs::create_dir(host.directory(1)).unwrap();
    host.add(2, FSID_1, ["rbd", "", "b", "-"]);
    // What is read last is gone first.
    fs::remove_file(host.directory(2).join("major")).unwrap();
    let ids: Vec<_> = host.krbd().list().unwrap().iter().map(|device| device.id).collect();
    assert_eq!(ids, [0]);
}

#[test]
fn a_missing_module_is_not_an_empty_list() {
    let host = Host::new();
    assert_eq!(host.krbd().list().unwrap(), []);
    fs::remove_dir_all(host.bus()).unwrap();
    let error = host.krbd().list().unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::ModuleNotLoaded, Some(Stage::Module)));
    assert_eq!(host.krbd().module(), ModuleState::NotLoaded);
    assert_eq!(host.krbd().supported_features().unwrap_err().kind(), ErrorKind::ModuleNotLoaded);
}

#[test]
fn one_newline_is_taken_off_and_blanks_are_kept() {
    let host = Host::new();
    host.add(0, FSID_1, ["rbd", "", " my disk ", "-"]);
    assert_eq!(host.krbd().device(0).unwrap().unwrap().image.as_bytes(), b" my disk ");
}

#[test]
fn names_that_are_patterns_elsewhere_match_themselves_only() {
    let host = Host::new();
    for (id, image) in ["img[1]*", "img1", "img1x", "?bar", "xbar"].into_iter().enumerate() {
        host.add(id as u32, FSID_1, ["foo*", "", image, "-"]);
    }
    let ids = |spec: &str| {
        let found = host.krbd().find(spec.parse::<crate::ImageSpec>().unwrap()).unwrap();
        found.iter().map(|device| device.id).collect::<Vec<_>>()
    };
    assert_eq!(ids("foo*/img[1]*"), [0]);
    assert_eq!(ids("foo*/?bar"), [3]);
    assert!(ids("foo/img1").is_empty());
}

#[test]
fn a_spec_means_its_namespace_its_snapshot_and_if_given_its_cluster() {
    let host = several();
    let ids = |target: Target| host.krbd().find(target).unwrap().iter().map(|device| device.id).collect::<Vec<_>>();
    let spec = |spec: &str| Target::from(spec.parse::<crate::ImageSpec>().unwrap());
    assert_eq!(ids(spec("rbd/a")), [0, 3, 4]);
    assert_eq!(ids(spec("rbd/a").of_cluster(FSID_2.parse().unwrap())), [4]);
    assert_eq!(ids(spec("rbd/ns1/a")), [5]);
    assert_eq!(ids(spec("rbd/a@s1")), [6]);
    assert_eq!(host.krbd().find(spec("a")).unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// The mappings of report B22.
pub(super) fn several() -> Host {
    let host = Host::new();
    host.add(0, FSID_1, ["rbd", "", "a", "-"]);
    host.add(3, FSID_1, ["rbd", "", "a", "-"]);
    host.add(4, FSID_2, ["rbd", "", "a", "-"]);
    host.add(5, FSID_1, ["rbd", "ns1", "a", "-"]);
    host.add(6, FSID_1, ["rbd", "", "a", "s1"]);
    host
}

#[test]
fn images_of_format_1_have_no_id_to_be_found_by() {
    let host = Host::new();
    for (id, image) in [(0, "db-1"), (1, "db-2")] {
        host.add(id, FSID_1, ["rbd", "", image, "-"]);
        host.set(id, "image_id", "");
    }
    host.add(2, FSID_1, ["rbd", "", "c", "-"]);
    let device = host.krbd().device(0).unwrap().unwrap();
    assert_eq!(device.image_id, None);
    let found = host.krbd().find(crate::ImageId::new("fb236b8b4567").unwrap()).unwrap();
    assert_eq!(found.iter().map(|device| device.id).collect::<Vec<_>>(), [2]);
}

#[test]
fn supported_features_that_the_kernel_does_not_tell_are_unknown() {
    let host = Host::new();
    assert_eq!(host.krbd().supported_features().unwrap(), None);
    fs::write(host.bus().join("supported_features"), "0x1bf\n").unwrap();
    assert_eq!(host.krbd().supported_features().unwrap(), Some(Features::from_bits_retain(0x1bf)));
    fs::write(host.bus().join("supported_features"), "many\n").unwrap();
    assert_eq!(host.krbd().supported_features().unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn the_module_is_known_to_be_loaded_or_built_in() {
    let host = Host::new();
    let module = host.root.path().join("sys/module/rbd");
    fs::create_dir_all(module.join("parameters")).unwrap();
    fs::write(module.join("parameters/single_major"), "Y\n").unwrap();
    assert_eq!(host.krbd().module(), ModuleState::BuiltIn { single_major: Some(true) });
    fs::write(module.join("initstate"), "live\n").unwrap();
    fs::write(module.join("parameters/single_major"), "N\n").unwrap();
    assert_eq!(host.krbd().module(), ModuleState::Loaded { single_major: Some(false) });
}

#[test]
fn paths_that_are_no_rbd_device_are_told_apart() {
    let host = Host::new();
    let krbd = host.krbd();
    let kind = |path: &str| krbd.find(Path::new(path)).unwrap_err().kind();
    assert_eq!(kind("/nonexistent"), ErrorKind::NotFound);
    assert_eq!(kind("/dev/null"), ErrorKind::NotBlockDevice);
    let file = host.root.path().join("dev/rbd0");
    fs::write(&file, "").unwrap();
    assert_eq!(krbd.find(file).unwrap_err().kind(), ErrorKind::NotBlockDevice);
}

#[test]
fn a_node_that_is_missing_stands_for_its_device_as_long_as_that_is_mapped() {
    let host = several();
    let (krbd, dev) = (host.krbd(), host.root.path().join("dev"));
    assert_eq!(krbd.find(dev.join("rbd5")).unwrap()[0].id, 5);
    for path in [dev.join("rbd7"), dev.join("rbd05"), dev.join("rbd5p1"), host.root.path().join("rbd5")] {
        assert_eq!(krbd.find(path.clone()).unwrap_err().kind(), ErrorKind::NotFound, "{}", path.display());
    }
    fs::write(dev.join("rbd5"), "").unwrap();
    assert_eq!(krbd.find(dev.join("rbd5")).unwrap_err().kind(), ErrorKind::NotBlockDevice);
}

#[test]
fn the_link_counts_only_if_it_leads_to_the_device() {
    let host = Host::new();
    host.add(4, FSID_1, ["p", "", "img", "-"]);
    let krbd = host.krbd();
    let device = krbd.device(4).unwrap().unwrap();
    assert_eq!(krbd.link(&device), None);
    let directory = host.root.path().join("dev/rbd/p");
    fs::create_dir_all(&directory).unwrap();
    std::os::unix::fs::symlink("../../rbd9", directory.join("img")).unwrap();
    assert_eq!(krbd.link(&device), None);
    fs::remove_file(directory.join("img")).unwrap();
    std::os::unix::fs::symlink("../../rbd4", directory.join("img")).unwrap();
    assert_eq!(krbd.link(&device), Some(directory.join("img")));
}

#[test]
fn a_size_is_waited_for() {
    let host = Host::new();
    host.add(0, FSID_1, ["rbd", "", "a", "-"]);
    let krbd = host.krbd();
    let device = krbd.device(0).unwrap().unwrap();
    let wait = |deadline, size| krbd.wait_for_size(&device, deadline, |now| now == size);
    assert_eq!(wait(Duration::ZERO, 1 << 30).unwrap(), 1 << 30);
    assert_eq!(wait(Duration::from_millis(1), 7).unwrap_err().kind(), ErrorKind::TimedOut);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(Duration::from_secs(60), 2 << 30));
        host.set(0, "size", &(2_u64 << 30).to_string());
        assert_eq!(waiting.join().unwrap().unwrap(), 2 << 30);
    });
    fs::remove_dir_all(host.directory(0)).unwrap();
    assert_eq!(wait(Duration::from_secs(60), 7).unwrap_err().kind(), ErrorKind::NotMapped);
}

/// Numbers that are too large, words that are cut off, bytes that are no text.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let text =
        "-?[0-9]{1,30}|0x[0-9a-fz]{0,20}|client[.]?[0-9]{0,25}|([a-z_]{1,9} [0-9]{0,25}\n){0,9}|[^ ]* [^ ]* [^ ]*";
    prop_oneof![text.prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..64)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_that_sysfs_shows_makes_reading_it_panic(values in prop::collection::vec(any_value(), 17)) {
        let host = Host::new();
        host.add(0, FSID_1, ["p", "", "i", "-"]);
        let mut attributes: Vec<_> = fs::read_dir(host.directory(0)).unwrap().map(|file| file.unwrap().path()).collect();
        attributes.push(host.directory(0).join("config_info"));
        attributes.sort();
        for (attribute, value) in attributes.iter().zip(&values) {
            fs::write(attribute, value).unwrap();
        }
        let krbd = host.krbd();
        for device in krbd.list().unwrap() {
            let _ = format!("{device} {device:?} {:?} {:?}", device.spec(), device.origin().map(|origin| origin.liveness()));
            let _ = device.config.as_ref().map(|config| (config.options(), config.unknown_options().count()));
            let _ = krbd.link(&device);
            prop_assert!(device.is_same_mapping(&device));
        }
    }
}
