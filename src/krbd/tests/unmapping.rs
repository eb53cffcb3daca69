use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};

use super::listing::several;
use super::*;
use crate::ImageSpec;

fn spec(spec: &str) -> ImageSpec {
    spec.parse().unwrap()
}

/// A kernel that removes, after having said EBUSY so many times.
fn removing_kernel(host: &Host, busy: u32) -> Krbd {
    let left = AtomicU32::new(busy);
    host.with_kernel(move |bus, file, request| {
        assert_eq!(file, "remove_single_major");
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
            return errno(libc::EBUSY);
        }
        let id = request.split(' ').next().unwrap();
        fs::remove_dir_all(bus.join("devices").join(id)).or_else(|_| errno(libc::ENOENT))
    })
}

fn ids(unmapped: &[Unmapped]) -> Vec<u32> {
    unmapped.iter().map(|unmapped| unmapped.device.id).collect()
}

#[test]
fn busy_is_tried_again_and_counted() {
    let host = several();
    let krbd = removing_kernel(&host, 2);
    let unmapped = krbd.unmap(spec("rbd/ns1/a"), &UnmapOptions::new()).unwrap();
    assert_eq!((ids(&unmapped), unmapped[0].attempts), (vec![5], 3));
}

#[test]
fn busy_for_good_ends_after_the_retries() {
    let host = several();
    let krbd = removing_kernel(&host, u32::MAX);
    for (retries, attempts) in [(0, 1), (2, 3)] {
        let error = krbd.unmap(5, &UnmapOptions::new().busy_retries(retries)).unwrap_err();
        assert_eq!((error.kind(), error.stage()), (ErrorKind::Busy, Some(Stage::Write)));
        assert_eq!(*error.details(), Details::Attempts(attempts));
    }
    // A deadline does not change what it is, unless this host is so busy that the last write outlasts it.
    let within = |deadline| krbd.unmap(5, &UnmapOptions::new().deadline(deadline)).unwrap_err().kind();
    assert!((0..20).any(|_| within(Duration::from_millis(300)) == ErrorKind::Busy));
    let error = krbd.unmap(5, &UnmapOptions::new().deadline(Duration::ZERO)).unwrap_err();
    assert_eq!((error.kind(), error.details()), (ErrorKind::TimedOut, &Details::Attempts(0)));
}

#[test]
fn one_of_several_that_stays_busy_does_not_take_the_time_of_the_others() {
    let host = several();
    let krbd = host.with_kernel(|bus, _, id| match id {
        "0" => errno(libc::EBUSY),
        _ => fs::remove_dir_all(bus.join("devices").join(id)),
    });
    let options = UnmapOptions::new().if_several(IfSeveral::All).busy_retries(u32::MAX);
    let error = krbd.unmap(spec("rbd/a"), &options.deadline(Duration::from_millis(600))).unwrap_err();
    assert!(error.object().unwrap().contains("rbd0"), "{error}");
    assert_eq!(krbd.list().unwrap().iter().map(|device| device.id).collect::<Vec<_>>(), [0, 5, 6]);
}

#[test]
fn several_mappings_of_a_spec_are_an_error_that_lists_them() {
    let host = several();
    let krbd = removing_kernel(&host, 0);
    let error = krbd.unmap(spec("rbd/a"), &UnmapOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous);
    let Details::Devices(devices) = error.details() else { panic!("{error:?}") };
    assert_eq!(devices.iter().map(|device| device.id).collect::<Vec<_>>(), [0, 3, 4]);
    assert_eq!(krbd.list().unwrap().len(), 5);
}

fn set_disk_sequence(host: &Host, id: u32, sequence: &str) {
    let block = host.root.path().join(format!("sys/block/rbd{id}"));
    fs::create_dir_all(&block).unwrap();
    fs::write(block.join("diskseq"), sequence).unwrap();
}

#[test]
fn a_policy_says_which_of_several() {
    let unmapped = |if_several, sequences: &[(u32, &str)]| {
        let host = several();
        for (id, sequence) in sequences {
            set_disk_sequence(&host, *id, sequence);
        }
        ids(&removing_kernel(&host, 0).unmap(spec("rbd/a"), &UnmapOptions::new().if_several(if_several)).unwrap())
    };
    assert_eq!(unmapped(IfSeveral::One, &[]), [0]);
    assert_eq!(unmapped(IfSeveral::All, &[]), [0, 3, 4]);
    assert_eq!(unmapped(IfSeveral::Newest, &[]), [4]);
    assert_eq!(unmapped(IfSeveral::Newest, &[(0, "9\n"), (3, "21\n"), (4, "10\n")]), [3]);
}

#[test]
fn the_cluster_and_the_image_id_choose_too() {
    let host = several();
    let krbd = removing_kernel(&host, 0);
    let target = Target::from(spec("rbd/a")).of_cluster(FSID_2.parse().unwrap());
    assert_eq!(ids(&krbd.unmap(target, &UnmapOptions::new()).unwrap()), [4]);
    host.set(6, "image_id", "aa");
    let id = crate::ImageId::new("aa").unwrap();
    assert_eq!(ids(&krbd.unmap(&id, &UnmapOptions::new()).unwrap()), [6]);
}

#[test]
fn what_is_not_mapped_is_said_to_be_so() {
    let host = several();
    let krbd = removing_kernel(&host, 0);
    assert_eq!(krbd.unmap(9, &UnmapOptions::new()).unwrap_err().kind(), ErrorKind::NotMapped);
    assert_eq!(krbd.unmap(spec("rbd/b"), &UnmapOptions::new()).unwrap_err().kind(), ErrorKind::NotMapped);
    let device = krbd.device(5).unwrap().unwrap();
    krbd.unmap(&device, &UnmapOptions::new()).unwrap();
    assert_eq!(krbd.unmap(&device, &UnmapOptions::new()).unwrap_err().kind(), ErrorKind::NotMapped);
}

/// With a config_info and a disk sequence, as on Linux 5.15.
fn set_identity(host: &Host, id: u32, sequence: &str) {
    host.set(id, "config_info", "192.0.2.1 name=admin p i -");
    set_disk_sequence(host, id, sequence);
}

#[test]
fn an_id_that_became_another_mappings_is_left_alone() {
    type Change = fn(&Host);
    let changes: [(&str, Change); 5] = [
        ("fsid", |host| host.set(5, "cluster_fsid", FSID_2)),
        ("image id", |host| host.set(5, "image_id", "aa")),
        ("client", |host| host.set(5, "client_id", "client9")),
        ("config", |host| host.set(5, "config_info", "192.0.2.1 name=other p i -")),
        ("disk sequence", |host| set_disk_sequence(host, 5, "8")),
    ];
    for (what, change) in changes {
        let host = several();
        let krbd = host.with_kernel(|_, _, _| panic!("written"));
        set_identity(&host, 5, "7");
        let device = krbd.device(5).unwrap().unwrap();
        change(&host);
        let error = krbd.unmap(&device, &UnmapOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{what}");
    }
}

#[test]
fn a_mapping_is_known_again_by_what_no_other_has() {
    let host = several();
    let krbd = removing_kernel(&host, 0);
    set_identity(&host, 5, "7");
    let device = krbd.device(5).unwrap().unwrap();
    // Without this attribute a full look finds no device.
    fs::remove_file(host.directory(5).join("major")).unwrap();
    assert_eq!(ids(&krbd.unmap(&device, &UnmapOptions::new()).unwrap()), [5]);
}

#[test]
fn an_id_that_changes_hands_between_two_tries_is_left_alone() {
    let host = several();
    let bus = host.bus();
    let krbd = host.with_kernel(move |_, _, _| {
        fs::write(bus.join("devices/5/image_id"), "aa\n").unwrap();
        errno(libc::EBUSY)
    });
    let error = krbd.unmap(5, &UnmapOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::Changed, Some(Stage::Preflight)));
}

#[test]
fn force_is_a_word_after_the_id() {
    let host = several();
    let krbd = host.with_kernel(|_, file, request| {
        assert_eq!((file, request), ("remove_single_major", "5 force"));
        Ok(())
    });
    krbd.unmap(5, &UnmapOptions::new().force()).unwrap();
}

#[test]
fn a_removal_that_hangs_frees_the_caller_and_the_next_is_told_that_it_goes_on() {
    let host = several();
    let ((begin, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let (first, released) = (AtomicU32::new(0), Mutex::new(released));
    let krbd = host.with_kernel(move |_, _, _| {
        if first.fetch_add(1, Ordering::Relaxed) > 0 {
            return errno(libc::EINPROGRESS);
        }
        begin.send(()).unwrap();
        released.lock().unwrap().recv().unwrap();
        Ok(())
    });
    let error = krbd.unmap(5, &UnmapOptions::new().deadline(Duration::from_millis(200))).unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::TimedOut, Some(Stage::Write)));
    let Details::PendingUnmap(pending) = error.details() else { panic!("{error:?}") };
    // On a busy host the deadline may pass before its thread has come so far.
    begun.recv().unwrap();
    let next = krbd.unmap(5, &UnmapOptions::new()).unwrap_err();
    assert_eq!((next.kind(), next.errno()), (ErrorKind::AlreadyRemoving, Some(libc::EINPROGRESS)));
    release.send(()).unwrap();
    pending.wait(None).unwrap().unwrap();
}

#[test]
fn a_device_that_its_mapper_has_not_finished_is_tried_again() {
    let host = several();
    let left = AtomicU32::new(2);
    let krbd = host.with_kernel(move |_, _, _| {
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)) {
            Ok(_) => errno(libc::ENOENT),
            Err(_) => Ok(()),
        }
    });
    assert_eq!(krbd.unmap(5, &UnmapOptions::new()).unwrap()[0].attempts, 3);
}

#[test]
fn a_missing_module_is_not_a_missing_mapping() {
    let host = several();
    fs::remove_dir_all(host.bus()).unwrap();
    let error = host.krbd().unmap(spec("rbd/a"), &UnmapOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ModuleNotLoaded);
}

#[test]
fn a_removal_that_was_interrupted_was_done_or_is_tried_again() {
    for done in [true, false] {
        let host = several();
        let interrupted = AtomicU32::new(0);
        let krbd = host.with_kernel(move |bus, _, _| {
            let first = interrupted.fetch_add(1, Ordering::Relaxed) == 0;
            if done || !first {
                fs::remove_dir_all(bus.join("devices/5")).unwrap();
            }
            if first { errno(libc::EINTR) } else { Ok(()) }
        });
        let unmapped = krbd.unmap(5, &UnmapOptions::new()).unwrap();
        assert_eq!(unmapped[0].attempts, if done { 1 } else { 2 });
        assert_eq!(krbd.device(5).unwrap(), None);
    }
}

#[test]
fn a_removal_without_an_answer_is_done_if_the_mapping_is_gone() {
    let host = several();
    let gone = AtomicU32::new(0);
    let krbd = host.with_kernel(move |bus, _, _| {
        if gone.fetch_add(1, Ordering::Relaxed) == 1 {
            fs::remove_dir_all(bus.join("devices/5")).unwrap();
        }
        Err(io::Error::other("the helper process ended without an answer"))
    });
    let error = krbd.unmap(5, &UnmapOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::Other, Some(Stage::Write)));
    krbd.unmap(5, &UnmapOptions::new()).unwrap();
}

/// The kernel shows a new mapping before its disk.
#[test]
fn a_mapping_that_was_read_before_its_disk_was_there_is_the_same_afterwards() {
    let host = several();
    let krbd = removing_kernel(&host, 0);
    let early = krbd.device(5).unwrap().unwrap();
    let block = host.root.path().join("sys/block/rbd5");
    fs::create_dir_all(&block).unwrap();
    fs::write(block.join("diskseq"), "9\n").unwrap();
    let late = krbd.device(5).unwrap().unwrap();
    fs::write(block.join("diskseq"), "10\n").unwrap();
    assert_eq!(krbd.unmap(&late, &UnmapOptions::new()).unwrap_err().kind(), ErrorKind::Changed);
    krbd.unmap(&early, &UnmapOptions::new()).unwrap();
}
