//! Maps and unmaps: what comes of them, many at once, and those that do not end.

use std::collections::BTreeSet;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rbd::krbd::{Device, IfSeveral, ImageIdentity, Krbd, Liveness, MsMode, UnmapOptions};
use rbd::{Details, DeviceNumber, Error, ErrorKind};

use crate::support::*;

#[test]
fn a_mapped_image_is_what_the_cluster_says_it_is() {
    let image = TestImage::new("facts");
    let device = image.map("").unwrap();
    let info = rbd(&["info", &image.0]);

    assert_eq!(device.spec(), Some(image.spec()));
    assert_eq!(device.size, 64 << 20);
    assert_eq!(device.read_only, Some(false));
    assert!(info.contains(&format!("\tid: {}\n", device.image_id.as_ref().unwrap())), "{info}");
    assert!(info.contains(&format!("\tfeatures: {}\n", device.features.unwrap())), "{info}");
    assert_eq!(device.fsid, config().fsid().unwrap());
    let watcher = format!("{} client.{} ", device.client_address.unwrap(), device.client_id.unwrap());
    assert!(image.watchers().contains(&watcher), "{watcher}: {}", image.watchers());

    let node = fs::metadata(&device.node).unwrap();
    assert_eq!(DeviceNumber::from_dev(node.st_rdev()), device.number);
    let file = fs::OpenOptions::new().write(true).open(&device.node).unwrap();
    file.write_all_at(&[7; 4096], 0).unwrap();
    file.sync_all().unwrap();
    drop(file);

    let config = device.config.clone().unwrap();
    assert!(config.as_str().contains("name=admin,key=client.admin rbd facts - origin="), "{config}");
    assert_eq!(device.origin().unwrap().liveness(), Liveness::Alive);
    assert_eq!(until(PATIENCE, || krbd().link(&device)).to_str(), Some("/dev/rbd/rbd/facts"));

    unmap(&device);
    assert_eq!(krbd().device(device.id).unwrap(), None);
    assert!(!device.node.exists());
    assert_eq!(image.watchers(), "Watchers: none\n");
    assert_eq!(krbd().unmap(&device, &UnmapOptions::new()).unwrap_err().kind(), ErrorKind::NotMapped);
}

#[test]
fn this_program_has_no_ceph_library_in_it() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("librados") && !maps.contains("librbd"), "{maps}");
    // It is the static one: no library at all.
    assert!(!maps.contains(".so"), "{maps}");
}

#[test]
fn an_image_its_snapshot_and_its_namesake_in_a_namespace_are_three_mappings() {
    rbd(&["namespace", "create", "rbd/ns1"]);
    let image = TestImage::new("twin");
    let twin = TestImage::with("rbd/ns1/twin", &[]);
    rbd(&["snap", "create", "rbd/twin@s1"]);
    let [own, snapshot, other] =
        ["rbd/twin", "rbd/twin@s1", "rbd/ns1/twin"].map(|spec| krbd().map(&request(spec)).unwrap());
    let read_only = krbd().map(&request("rbd/twin").options(options("ro"))).unwrap();

    assert_eq!(
        [&own, &snapshot, &other, &read_only].map(|device| device.read_only),
        [false, true, false, true].map(Some)
    );
    assert_eq!(snapshot.snapshot.as_ref().unwrap().to_str(), Some("s1"));
    assert_eq!(own.snapshot_id, Some(Device::NO_SNAPSHOT));
    assert_ne!(own.image_id, other.image_id);
    let ids = |spec: &str| {
        let found = krbd().find(spec.parse::<rbd::ImageSpec>().unwrap()).unwrap();
        found.iter().map(|device| device.id).collect::<Vec<_>>()
    };
    assert_eq!(ids("rbd/twin"), [own.id, read_only.id]);
    assert_eq!(ids("rbd/twin@s1"), [snapshot.id]);
    assert_eq!(ids("rbd/ns1/twin"), [other.id]);
    // Neither snapshots nor read-only maps watch: there is one watcher.
    assert_eq!(image.watchers().matches("watcher=").count(), 1, "{}", image.watchers());

    for device in [&snapshot, &read_only] {
        let opened = fs::OpenOptions::new().write(true).open(&device.node);
        let refused = opened.and_then(|file| file.write_all_at(&[1; 512], 0)).unwrap_err();
        assert!(matches!(refused.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::EROFS)), "{refused}");
    }
    for device in [snapshot, other, read_only, own] {
        unmap(&device);
    }
    drop(twin);
}

#[test]
fn odd_names_that_are_legal_are_mapped_and_unmapped_by_themselves() {
    let long = "x".repeat(200);
    let names = ["foo*", "foo", "[0.0.0.0]", "?bar", "-dash", "a,b", &long];
    let images = names.map(TestImage::new);
    let devices = images.each_ref().map(|image| image.map("").unwrap());
    for (image, device) in images.iter().zip(&devices) {
        assert_eq!(device.spec(), Some(image.spec()));
        let unmapped = krbd().unmap(image.spec(), &UnmapOptions::new()).unwrap();
        assert_eq!(unmapped.iter().map(|unmapped| unmapped.device.id).collect::<Vec<_>>(), [device.id]);
    }
}

#[test]
fn threads_and_processes_that_map_the_same_at_once_each_get_their_own() {
    // Without a lock, which so many writers would hand round.
    let image = TestImage::with("rbd/race", &["--image-feature", "layering"]);
    let ids: BTreeSet<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| image.map("").unwrap().id)).collect();
        let processes: Vec<_> = (0..4)
            .map(|_| {
                let mut command = std::process::Command::new(example("map"));
                command.args(["--conf", share().join("ceph.conf").to_str().unwrap(), &image.0]);
                command.stdout(std::process::Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let own = threads.into_iter().map(|thread| thread.join().unwrap());
        let others = processes.into_iter().map(|process| {
            let (code, out, err) = text(&process.wait_with_output().unwrap());
            assert_eq!(code, 0, "{err}");
            out.trim().strip_prefix("/dev/rbd").unwrap().parse().unwrap()
        });
        own.collect::<Vec<_>>().into_iter().chain(others).collect()
    });
    assert_eq!(ids.len(), 12);
    let mapped: BTreeSet<u32> = krbd().find(image.spec()).unwrap().iter().map(|device| device.id).collect();
    assert_eq!(mapped, ids);
    let error = krbd().unmap(image.spec(), &UnmapOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous);
    let newest = krbd().unmap(image.spec(), &UnmapOptions::new().if_several(IfSeveral::Newest)).unwrap();
    let last = krbd().find(image.spec()).unwrap().iter().map(|device| device.disk_sequence).max().unwrap();
    assert!(newest[0].device.disk_sequence > last);
    krbd().unmap(image.spec(), &UnmapOptions::new().if_several(IfSeveral::All)).unwrap();
    assert_eq!(krbd().find(image.spec()).unwrap(), []);
}

#[test]
fn a_hundred_maps_and_unmaps_32_at_a_time_without_udev() {
    let _without = WithoutUdev::new();
    let images: Vec<_> =
        (0..4).map(|n| TestImage::with(&format!("rbd/many{n}"), &["--image-feature", "layering"])).collect();
    for shared in ["share", "noshare"] {
        let start = Instant::now();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let clients = std::sync::Mutex::new(BTreeSet::new());
        std::thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    loop {
                        let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if n >= 100 {
                            break;
                        }
                        let device = images[n % 4].map(shared).unwrap();
                        assert_eq!(device.spec(), Some(images[n % 4].spec()));
                        clients.lock().unwrap().insert(device.client_id);
                        unmap(&device);
                    }
                });
            }
        });
        let clients = clients.into_inner().unwrap().len();
        println!("100 maps and unmaps, 32 at a time, {shared}: {:?}, {clients} clients", start.elapsed());
        assert_eq!(krbd().list().unwrap(), []);
        assert!(if shared == "share" { clients < 100 } else { clients == 100 }, "{clients}");
    }
}

#[test]
fn the_same_image_is_mapped_once_if_that_is_wanted() {
    let image = TestImage::new("once");
    let device = image.map("queue_depth=64").unwrap();
    let identity = ImageIdentity {
        fsid: device.fsid.unwrap(),
        pool_id: device.pool_id.unwrap(),
        image_id: device.image_id.clone().unwrap(),
        snapshot_id: None,
    };
    let with = |text: &str| krbd().map_or_get(&request(&image.0).options(options(text)), &identity);
    assert_eq!(with("queue_depth=64").unwrap(), device);
    let error = with("queue_depth=64,ro").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionsDiffer);
    unmap(&device);
    unmap(&with("ro").unwrap());
}

#[test]
fn every_protocol_maps_and_the_addresses_fit_it() {
    let image = TestImage::new("modes");
    for mode in [MsMode::Legacy, MsMode::Crc, MsMode::Secure, MsMode::PreferCrc, MsMode::PreferSecure] {
        let device = image.map(&format!("ms_mode={mode}")).unwrap();
        assert!(device.config.as_ref().unwrap().as_str().contains(&format!(",ms_mode={mode} ")), "{device:?}");
        unmap(&device);
    }
    // Only v2 addresses are known: msgr2 is the default then.
    let monitors = config().monitors().unwrap();
    let v2 = monitors.for_protocol(rbd::address::Protocol::V2).unwrap()[0];
    let request =
        rbd::krbd::MapRequest::new(format!("v2:{v2}").parse().unwrap(), config().credentials().unwrap(), image.spec());
    let device = krbd().map(&request).unwrap();
    assert!(device.config.as_ref().unwrap().as_str().contains(",ms_mode=prefer-crc "), "{device:?}");
    unmap(&device);
    let error = krbd().map(&request.options(options("ms_mode=legacy"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMonitor);
}

fn unreachable(spec: &str) -> rbd::krbd::MapRequest {
    // Nobody listens there.
    rbd::krbd::MapRequest::new(
        "v1:127.0.0.2:9".parse().unwrap(),
        config().credentials().unwrap(),
        spec.parse().unwrap(),
    )
}

fn pending(error: &Error) -> rbd::krbd::Pending<Device> {
    match error.details() {
        Details::PendingMap(pending) => pending.clone(),
        _ => panic!("{error:?}"),
    }
}

#[test]
fn an_unreachable_monitor_is_the_kernels_time_out_or_the_callers_deadline() {
    let start = Instant::now();
    let error = krbd().map(&unreachable("rbd/x").options(options("mount_timeout=2"))).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::TimedOut, Some(libc::ETIMEDOUT)));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());

    let start = Instant::now();
    let request = unreachable("rbd/x").options(options("mount_timeout=3")).deadline(Duration::from_millis(300));
    let error = krbd().map(&request).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::TimedOut, None));
    assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
    let end = pending(&error).wait(Some(PATIENCE)).unwrap().unwrap_err();
    assert_eq!(end.errno(), Some(libc::ETIMEDOUT));
}

#[test]
fn a_map_that_completes_after_its_deadline_is_unmapped_again_if_it_was_discarded() {
    let image = TestImage::new("late");
    let osd = StoppedOsd::new();
    let result = krbd().map(&request(&image.0).deadline(Duration::from_millis(500)));
    let discarded = result.as_ref().is_err_and(|error| pending(error).discard());
    drop(osd);
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(discarded);
    assert!(pending(&error).wait(Some(PATIENCE)).unwrap().is_err());
    assert_eq!(krbd().find(image.spec()).unwrap(), []);
    assert_eq!(image.watchers(), "Watchers: none\n");
}

#[test]
fn an_unmap_that_waits_for_the_cluster_frees_the_caller() {
    let image = TestImage::new("stuck");
    let device = image.map("").unwrap();
    // The lock is what the removal must give back.
    fs::OpenOptions::new().write(true).open(&device.node).unwrap().write_all_at(&[1; 512], 0).unwrap();
    run("udevadm", &["settle"]);
    let osd = StoppedOsd::new();
    let result = krbd().unmap(&device, &UnmapOptions::new().deadline(Duration::from_secs(2)));
    drop(osd);
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    let Details::PendingUnmap(pending) = error.details() else { panic!("{error:?}") };
    pending.wait(Some(PATIENCE)).unwrap().unwrap();
    assert_eq!(krbd().find(image.spec()).unwrap(), []);
}

#[test]
fn a_program_killed_in_the_middle_of_a_map_leaves_nothing() {
    let image = TestImage::new("killed");
    for (n, delay) in [20, 60, 120, 200, 300].into_iter().enumerate() {
        let mut command = std::process::Command::new(example("map"));
        command.args(["--conf", share().join("ceph.conf").to_str().unwrap(), &image.0]);
        let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        // Where in the map it dies is left to chance; what follows holds anywhere.
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        for left in krbd().find(image.spec()).unwrap() {
            println!("round {n}: killed after {delay} ms, left {left}");
            assert_eq!(left.origin().unwrap().liveness(), Liveness::Gone);
            unmap(&left);
        }
        assert_eq!(krbd().find(image.spec()).unwrap(), []);
    }
    unmap(&image.map("").unwrap());
}

#[test]
fn a_device_without_a_node_is_mapped_and_gets_one_on_request() {
    let image = TestImage::new("nodeless");
    let dev = tempfile::tempdir().unwrap();
    before();
    let krbd = Krbd::with_roots("/sys", dev.path(), "/proc");
    let request = |policy| request(&image.0).node(policy);
    let bound = Duration::from_millis(100);
    let error = krbd.map(&request(rbd::krbd::NodePolicy::Require(bound))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NodeUnusable);
    let Details::Devices(devices) = error.details() else { panic!("{error:?}") };
    unmap(&devices[0]);
    let device = krbd.map(&request(rbd::krbd::NodePolicy::Create(bound))).unwrap();
    assert_eq!(device.node, dev.path().join(format!("rbd{}", device.id)));
    fs::File::open(&device.node).unwrap().read_exact_at(&mut [0; 512], 0).unwrap();
    unmap(&device);
    fs::remove_file(&device.node).unwrap();
    let device = krbd.map(&request(rbd::krbd::NodePolicy::Ignore)).unwrap();
    assert!(!device.node.exists());
    unmap(&device);
}
