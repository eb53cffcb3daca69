use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use super::*;
use crate::secret::Secret;

/// A kernel that maps, gives out the lowest free ids, and repeats what was written.
fn mapping_kernel(host: &Host) -> Krbd {
    let next = AtomicU32::new(0);
    host.with_kernel(move |bus, _, request| {
        let id = next.fetch_add(1, Ordering::Relaxed);
        map(bus, id, request);
        fs::write(bus.join(format!("devices/{id}/config_info")), format!("{request}\n")).unwrap();
        Ok(())
    })
}

fn map(bus: &Path, id: u32, request: &str) {
    let [_, _, pool, image, snapshot, _] = request.split(' ').collect::<Vec<_>>().try_into().unwrap();
    add_device(bus, id, [pool, "", image, snapshot]);
}

#[test]
fn the_new_device_is_found_without_udev_and_without_a_node() {
    let host = Host::new();
    let krbd = host.with_kernel(|bus, file, request| {
        assert_eq!(file, "add_single_major");
        map(bus, 7, request);
        fs::write(bus.join("devices/7/config_info"), request).unwrap();
        Ok(())
    });
    let device = krbd.map(&request("kube/pvc-1")).unwrap();
    assert_eq!(device.id, 7);
    assert_eq!(device.node, host.root.path().join("dev/rbd7"));
    assert_eq!(device.origin().unwrap().pid(), std::process::id());
    assert_eq!(device.origin().unwrap().liveness(), Liveness::Alive);
}

#[test]
fn threads_that_map_the_same_at_once_each_get_their_own() {
    let host = Host::new();
    let krbd = mapping_kernel(&host);
    let mut ids: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..32).map(|_| scope.spawn(|| krbd.map(&request("kube/pvc-1")).unwrap().id)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    ids.sort_unstable();
    assert_eq!(ids, (0..32).collect::<Vec<_>>());
}

#[test]
fn an_id_that_was_another_mappings_before_the_map_is_found_too() {
    let host = Host::new();
    host.add(0, FSID_1, ["kube", "", "gone", "-"]);
    let krbd = host.with_kernel(|bus, _, request| {
        // Unmapped by somebody else meanwhile, and the id given out again.
        fs::remove_dir_all(bus.join("devices/0")).unwrap();
        map(bus, 0, request);
        fs::write(bus.join("devices/0/config_info"), request).unwrap();
        Ok(())
    });
    assert_eq!(krbd.map(&request("kube/pvc-1")).unwrap().spec().unwrap().to_string(), "kube/pvc-1");
}

/// Reading a directory is EISDIR, to root as well.
fn make_unreadable(directory: &Path) {
    let _ = fs::remove_file(directory.join("config_info"));
    fs::create_dir(directory.join("config_info")).unwrap();
}

#[test]
fn another_mapping_that_cannot_be_read_does_not_hide_the_new_one() {
    let host = Host::new();
    let krbd = host.with_kernel(|bus, _, request| {
        for id in [2, 3] {
            map(bus, id, request);
        }
        make_unreadable(&bus.join("devices/2"));
        fs::write(bus.join("devices/3/config_info"), request)
    });
    assert_eq!(krbd.map(&request("p/i")).unwrap().id, 3);
}

#[test]
fn a_new_mapping_that_cannot_be_read_is_an_error_that_says_it_was_made() {
    let host = Host::new();
    let krbd = host.with_kernel(|bus, _, request| {
        map(bus, 3, request);
        make_unreadable(&bus.join("devices/3"));
        Ok(())
    });
    let error = krbd.map(&request("p/i")).unwrap_err();
    assert_eq!((error.errno(), error.stage()), (Some(libc::EISDIR), Some(Stage::Write)));
    assert!(error.hint().unwrap().starts_with("the image was mapped"), "{error:#}");
}

#[test]
fn a_kernel_that_does_not_repeat_the_request_is_served_by_the_difference() {
    let host = Host::new();
    host.add(0, FSID_1, ["kube", "", "pvc-1", "-"]);
    let krbd = host.with_kernel(|bus, _, request| {
        map(bus, 1, request);
        add_device(bus, 2, ["kube", "", "another", "-"]);
        Ok(())
    });
    assert_eq!(krbd.map(&request("kube/pvc-1")).unwrap().id, 1);
}

#[test]
fn without_a_mark_two_new_ones_of_one_spec_are_ambiguous() {
    let host = Host::new();
    let krbd = host.with_kernel(|bus, _, request| {
        map(bus, 1, request);
        map(bus, 2, request);
        Ok(())
    });
    let error = krbd.map(&request("kube/pvc-1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous);
    assert!(matches!(error.details(), Details::Devices(devices) if devices.len() == 2), "{error:?}");
}

#[test]
fn an_older_module_has_one_file_for_it() {
    let host = Host::new();
    fs::remove_file(host.bus().join("add_single_major")).unwrap();
    let krbd = host.with_kernel(|bus, file, request| {
        assert_eq!(file, "add");
        map(bus, 0, request);
        Ok(())
    });
    krbd.map(&request("kube/pvc-1")).unwrap();
}

#[test]
fn what_the_kernel_says_is_told_apart() {
    for (number, kind) in [
        (libc::ENOENT, ErrorKind::NotFound),
        (libc::ENXIO, ErrorKind::FeatureMismatch),
        (libc::EACCES, ErrorKind::PermissionDenied),
        (libc::EINVAL, ErrorKind::InvalidInput),
        (libc::EBUSY, ErrorKind::Busy),
        (libc::EROFS, ErrorKind::LockHeld),
        (libc::ESHUTDOWN, ErrorKind::Blocklisted),
        (libc::ETIMEDOUT, ErrorKind::TimedOut),
        (libc::ERANGE, ErrorKind::Other),
    ] {
        let host = Host::new();
        let error = host.with_kernel(move |_, _, _| errno(number)).map(&request("p/i")).unwrap_err();
        assert_eq!((error.kind(), error.errno(), error.stage()), (kind, Some(number), Some(Stage::Write)));
    }
}

#[test]
fn a_bus_that_cannot_be_opened_says_nothing_of_the_image() {
    let host = Host::new();
    for (number, kind) in [(libc::EROFS, ErrorKind::SysfsReadOnly), (libc::EACCES, ErrorKind::NotPrivileged)] {
        let refuse = move |_: &Path, _: &[u8]| Err(BusError(Stage::Open, io::Error::from_raw_os_error(number)));
        let krbd = Krbd { bus: Bus(Arc::new(refuse)), ..host.krbd() };
        let error = krbd.map(&request("p/i")).unwrap_err();
        assert_eq!((error.kind(), error.stage()), (kind, Some(Stage::Open)));
        host.add(0, FSID_1, ["p", "", "i", "-"]);
        let error = krbd.unmap(0, &UnmapOptions::new()).unwrap_err();
        assert_eq!((error.kind(), error.stage()), (kind, Some(Stage::Open)));
    }
}

#[test]
fn without_privilege_the_kernels_eperm_is_told_as_such() {
    let host = Host::new();
    let proc = host.root.path().join("proc");
    fs::create_dir_all(proc.join("self")).unwrap();
    let kind = |capabilities: &str, uid_map: &str| {
        fs::write(proc.join("self/status"), format!("Name:\tx\nCapEff:\t{capabilities}\n")).unwrap();
        fs::write(proc.join("self/uid_map"), uid_map).unwrap();
        let krbd = Krbd { proc: proc.clone(), ..host.with_kernel(|_, _, _| errno(libc::EPERM)) };
        krbd.map(&request("p/i")).unwrap_err().kind()
    };
    assert_eq!(kind("000001ffffffffff", "         0          0 4294967295\n"), ErrorKind::PermissionDenied);
    assert_eq!(kind("00000000a80425fb", "         0          0 4294967295\n"), ErrorKind::NotPrivileged);
    assert_eq!(kind("000001ffffffffff", "         0     100000      65536\n"), ErrorKind::NotPrivileged);
}

#[test]
fn ebusy_with_a_major_for_each_of_many_devices_is_out_of_majors() {
    let host = Host::new();
    let parameters = host.root.path().join("sys/module/rbd/parameters");
    fs::create_dir_all(&parameters).unwrap();
    fs::write(parameters.join("single_major"), "N\n").unwrap();
    let krbd = host.with_kernel(|_, _, _| errno(libc::EBUSY));
    assert_eq!(krbd.map(&request("p/i")).unwrap_err().kind(), ErrorKind::Busy);
    for id in 0..230 {
        fs::create_dir(host.directory(id)).unwrap();
    }
    assert_eq!(krbd.map(&request("p/i")).unwrap_err().kind(), ErrorKind::OutOfMajors);
    fs::write(parameters.join("single_major"), "Y\n").unwrap();
    assert_eq!(krbd.map(&request("p/i")).unwrap_err().kind(), ErrorKind::Busy);
}

#[test]
fn a_lock_timeout_that_has_passed_is_not_the_monitors() {
    let lock_timed_out = |options: &str, seconds| {
        let request = request("p/i").options(options.parse().unwrap());
        crate::krbd::map::lock_timed_out(&request, Duration::from_secs_f64(seconds))
    };
    assert!(lock_timed_out("lock_timeout=5", 5.1));
    assert!(!lock_timed_out("lock_timeout=5", 4.9));
    assert!(!lock_timed_out("lock_timeout=5", 60.1));
    assert!(!lock_timed_out("lock_timeout=5,mount_timeout=5", 5.1));
    assert!(lock_timed_out("lock_timeout=5,mount_timeout=0", 90.0));
    assert!(!lock_timed_out("lock_timeout=0", 60.1));
    assert!(!lock_timed_out("", 60.1));
}

#[test]
fn a_key_that_the_kernel_does_not_take_is_the_stage_of_the_key_and_nothing_is_written() {
    let host = Host::new();
    let krbd = host.with_kernel(|_, _, _| panic!("written"));
    // Its length field is right and its secret is missing: no kernel takes it, and most test machines lack the type.
    let secret = Secret::new("AQAAAAAAAAAAAAAA");
    let credentials = Credentials::new("admin", secret);
    let request = MapRequest::new("192.0.2.1".parse().unwrap(), credentials, "p/i".parse().unwrap());
    let error = krbd.map(&request).unwrap_err();
    assert_eq!(error.stage(), Some(Stage::AddKey), "{error:?}");
    assert!(error.errno().is_some());
}

#[test]
fn what_the_keyring_of_a_helper_says_is_not_taken_for_the_clusters_word() {
    let host = Host::new();
    for number in [libc::EPERM, libc::EDQUOT] {
        let refuse = move |_: &Path, _: &[u8]| Err(BusError(Stage::AddKey, io::Error::from_raw_os_error(number)));
        let error = Krbd { bus: Bus(Arc::new(refuse)), ..host.krbd() }.map(&request("p/i")).unwrap_err();
        assert_eq!(
            (error.errno(), error.stage(), error.object()),
            (Some(number), Some(Stage::AddKey), Some("client.admin"))
        );
    }
}

#[test]
fn a_deadline_hands_back_the_map_that_goes_on() {
    let host = Host::new();
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let krbd = host.with_kernel(move |bus, _, request| {
        released.lock().unwrap().recv().unwrap();
        map(bus, 3, request);
        fs::write(bus.join("devices/3/config_info"), request).unwrap();
        Ok(())
    });
    let error = krbd.map(&request("p/i").deadline(Duration::from_millis(200))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let Details::PendingMap(pending) = error.details() else { panic!("{error:?}") };
    assert!(pending.wait(Some(Duration::ZERO)).is_none());
    release.send(()).unwrap();
    assert_eq!(pending.wait(None).unwrap().unwrap().id, 3);
}

#[test]
fn a_deadline_that_is_over_maps_nothing_and_one_beyond_the_clock_is_none() {
    let host = Host::new();
    let krbd = mapping_kernel(&host);
    let error = krbd.map(&request("p/i").deadline(Duration::ZERO)).unwrap_err();
    assert_eq!((error.kind(), error.details()), (ErrorKind::TimedOut, &Details::None));
    assert_eq!(krbd.list().unwrap(), []);
    assert_eq!(krbd.map(&request("p/i").deadline(Duration::MAX)).unwrap().id, 0);
}

#[test]
fn a_map_that_was_discarded_is_unmapped_when_it_completes() {
    let host = Host::new();
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let krbd = host.with_kernel(move |bus, file, request| {
        if file == "remove_single_major" {
            assert_eq!(request, "3");
            fs::remove_dir_all(bus.join("devices/3")).unwrap();
            return Ok(());
        }
        released.lock().unwrap().recv().unwrap();
        map(bus, 3, request);
        fs::write(bus.join("devices/3/config_info"), request).unwrap();
        Ok(())
    });
    let error = krbd.map(&request("p/i").deadline(Duration::from_millis(200))).unwrap_err();
    let Details::PendingMap(pending) = error.details() else { panic!("{error:?}") };
    assert!(pending.discard());
    release.send(()).unwrap();
    assert_eq!(pending.wait(None).unwrap().unwrap_err().kind(), ErrorKind::Changed);
    assert_eq!(krbd.list().unwrap(), []);
}

#[test]
fn a_node_that_cannot_be_used_leaves_the_device_in_the_error() {
    let host = Host::new();
    let krbd = mapping_kernel(&host);
    let policy = NodePolicy::Require(Duration::from_millis(20));
    let error = krbd.map(&request("p/i").node(policy)).unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::NodeUnusable, Some(Stage::Node)));
    let Details::Devices(devices) = error.details() else { panic!("{error:?}") };
    assert_eq!(devices[0].id, 0);
    // A regular file is there to stay: no waiting for that.
    fs::write(host.root.path().join("dev/rbd1"), "").unwrap();
    for policy in [NodePolicy::default(), NodePolicy::Create(Duration::ZERO)] {
        let error = krbd.wait_for_node(&krbd.device(0).unwrap().unwrap(), Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NodeUnusable, "{policy:?}");
    }
    let error =
        krbd.map(&request("p/i")).map(|_| ()).and(krbd.map(&request("p/i").node(NodePolicy::default())).map(|_| ()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NodeUnusable);
}

#[test]
fn the_existing_mapping_is_taken_if_it_is_of_the_same_image_with_the_same_options() {
    let host = Host::new();
    let krbd = mapping_kernel(&host);
    let identity = ImageIdentity {
        fsid: FSID_1.parse().unwrap(),
        pool_id: 2,
        image_id: crate::ImageId::new("fb236b8b4567").unwrap(),
        snapshot_id: None,
    };
    let wanted = request("p/i").options(MapOptions::new().exclusive());
    assert_eq!(krbd.map_or_get(&wanted, &identity).unwrap().id, 0);
    // By another name: it was renamed since.
    let renamed = request("p/new").options(MapOptions::new().exclusive().udev(false));
    assert_eq!(krbd.map_or_get(&renamed, &identity).unwrap().id, 0);
    let error = krbd.map_or_get(&request("p/i").options("ro,exclusive".parse().unwrap()), &identity).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionsDiffer);
    let Details::Options(differences) = error.details() else { panic!("{error:?}") };
    assert_eq!(differences.iter().map(ToString::to_string).collect::<Vec<_>>(), ["not ro"]);
    let other = ImageIdentity { fsid: FSID_2.parse().unwrap(), ..identity };
    assert_eq!(krbd.map_or_get(&request("p/i"), &other).unwrap().id, 1);
}

#[test]
fn a_write_that_is_lost_is_answered_by_what_came_of_it() {
    let host = Host::new();
    host.add(0, FSID_1, ["p", "", "i", "-"]);
    let lost = || Err(io::Error::other("the helper process ended without an answer"));
    let krbd = host.with_kernel(move |bus, _, request| {
        map(bus, 1, request);
        fs::write(bus.join("devices/1/config_info"), request).unwrap();
        lost()
    });
    assert_eq!(krbd.map(&request("p/i")).unwrap().id, 1);
    // Without a mark it may be another's.
    let krbd = host.with_kernel(move |bus, _, request| {
        map(bus, 2, request);
        lost()
    });
    let error = krbd.map(&request("p/i")).unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::Other, Some(Stage::Write)));
    assert!(format!("{error:#}").contains("the helper process ended without an answer"), "{error:#}");
}

#[test]
fn a_discarded_map_that_cannot_be_undone_is_an_error() {
    let host = Host::new();
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let krbd = host.with_kernel(move |bus, file, request| {
        if file == "remove_single_major" {
            return errno(libc::EIO);
        }
        released.lock().unwrap().recv().unwrap();
        map(bus, 3, request);
        fs::write(bus.join("devices/3/config_info"), request)
    });
    let error = krbd.map(&request("p/i").deadline(Duration::from_millis(200))).unwrap_err();
    let Details::PendingMap(pending) = error.details() else { panic!("{error:?}") };
    assert!(pending.discard());
    release.send(()).unwrap();
    let error = pending.wait(None).unwrap().unwrap_err();
    assert_eq!(
        (error.errno(), error.object()),
        (Some(libc::EIO), Some(krbd.device(3).unwrap().unwrap().to_string().as_str()))
    );
}
