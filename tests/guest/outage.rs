//! An OSD that stops while an image is mapped.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rbd::krbd::{Device, UnmapOptions};
use rbd::{Details, ErrorKind};

use crate::support::*;

/// A program that writes to the device and waits until that has reached the cluster.
fn start_writer(device: &Device) -> JoinHandle<io::Result<()>> {
    let file = fs::OpenOptions::new().write(true).open(&device.node).unwrap();
    std::thread::spawn(move || {
        file.write_all_at(&[7; 1 << 20], 0)?;
        file.sync_all()
    })
}

/// The lock is what a removal must give back.
fn map_with_lock(image: &TestImage, options: &str) -> Device {
    let device = image.map(options).unwrap();
    start_writer(&device).join().unwrap().unwrap();
    run("udevadm", &["settle"]);
    device
}

fn in_flight(device: &Device) -> bool {
    let text = fs::read_to_string(format!("/sys/block/rbd{}/inflight", device.id)).unwrap();
    text.split_whitespace().any(|count| count != "0")
}

#[test]
fn io_in_flight_holds_a_forced_unmap_and_absent_is_not_unmapped() {
    let image = TestImage::new("inflight");
    let device = map_with_lock(&image, "");
    let osd = StoppedOsd::new();
    let writer = start_writer(&device);
    until(PATIENCE, || in_flight(&device).then_some(()));

    let error = krbd().unmap(&device, &UnmapOptions::new().busy_retries(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let by_force = UnmapOptions::new().force().deadline(Duration::from_secs(2));
    let error = krbd().unmap(&device, &by_force).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    let Details::PendingUnmap(pending) = error.details() else { panic!("{error:?}") };
    assert!(!pending.is_finished() && !writer.is_finished());
    // Whoever comes now is told so, or finds no such mapping: neither means that it is unmapped.
    let next = krbd().unmap(&device, &by_force).unwrap_err();
    assert!(matches!(next.kind(), ErrorKind::NotMapped | ErrorKind::AlreadyRemoving), "{next}");

    drop(osd);
    pending.wait(Some(PATIENCE)).unwrap().unwrap();
    println!("the writer got {:?}", writer.join().unwrap());
    assert_eq!(image.watchers(), "Watchers: none\n");
}

#[test]
fn with_osd_request_timeout_all_ends_though_the_osd_stays_away() {
    let image = TestImage::new("bounded");
    let device = map_with_lock(&image, "osd_request_timeout=5");
    let osd = StoppedOsd::new();
    let writer = start_writer(&device);
    until(PATIENCE, || in_flight(&device).then_some(()));
    let start = Instant::now();
    let result = krbd().unmap(&device, &UnmapOptions::new().force().deadline(PATIENCE));
    println!("unmapped by force, without an OSD, in {:?}", start.elapsed());
    let written = writer.join().unwrap();
    drop(osd);
    result.unwrap();
    assert!(written.is_err());
    assert_eq!(krbd().find(image.spec()).unwrap(), []);
    // Nobody told the cluster: the watch ends by itself, and the lock is broken by the next who wants it.
    unmap(&image.map("").unwrap());
}
