//! Map, unmap and list through the kernel's driver against the bare writes to it and against the program `rbd`, in the
//! guest: `benches/run krbd`. With arguments only those of `writes`, `programs`, `probe` and `list`.
//!
//! The guest's processor is most often an emulated one: the ratios hold, the times do not.

mod interleaved;
#[path = "../tests/guest/support.rs"]
#[allow(dead_code)] // What only the tests use.
mod support;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use interleaved::{Peer, compare};
use rbd::krbd::{IfSeveral, MapOptions, MapRequest, UnmapOptions};
use rbd::{Attach, Cluster};
use rustix::fs::{Mode, OFlags, inotify, open, openat};
use support::*;

const BUS: &str = "/sys/bus/rbd";

fn main() {
    // cargo adds an option of its own.
    let named: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with("--")).collect();
    let is_wanted = |name: &str| named.is_empty() || named.iter().any(|named| named == name);
    let image = TestImage::new("bench");
    krbd(); // loads the module
    let request = request(&image.0);
    if is_wanted("writes") {
        against_bare_writes(&request);
    }
    if is_wanted("programs") {
        against_programs(&request);
    }
    if is_wanted("probe") {
        right_after_a_map(&request);
    }
    if is_wanted("list") {
        listing();
    }
}

/// What is not the kernel's own time: at most a tenth.
fn against_bare_writes(request: &MapRequest) {
    let krbd = krbd();
    let device = krbd.map(request).unwrap();
    let text = device.config.clone().unwrap().to_string();
    settle();
    unmap(&device);
    give_key_to_kernel("client.admin");

    let ratios = compare(
        "map and unmap, from given parts",
        60,
        &mut [
            Peer::timed("the library", || {
                map_and_unmap(|| krbd.map(request).unwrap(), |device| krbd.unmap(device, &UnmapOptions::new()).unwrap())
            }),
            Peer::timed("bare writes to /sys/bus/rbd", || {
                let write = |verb: &str, text: &str| fs::write(format!("{BUS}/{verb}_single_major"), text).unwrap();
                map_and_unmap(
                    || {
                        write("add", &text);
                        fs::read_dir(format!("{BUS}/devices")).unwrap().next().unwrap().unwrap().file_name()
                    },
                    |id| write("remove", id.to_str().unwrap()),
                )
            }),
        ],
    );
    wanted("of the bare writes' time, at most 1.1", ratios[1] <= 1.1);
}

fn against_programs(request: &MapRequest) {
    let spec = request.spec();
    let name = spec.to_string();
    let krbd = krbd();
    let ratios = compare(
        "map and unmap",
        20,
        &mut [
            Peer::timed("rbd map, rbd unmap", || {
                map_and_unmap(|| program(&["map", &name]), |node| program(&["unmap", node.trim()]))
            }),
            Peer::timed("the library, from given parts", || {
                map_and_unmap(|| krbd.map(request).unwrap(), |device| krbd.unmap(device, &UnmapOptions::new()).unwrap())
            }),
            Peer::timed("the library, with a new connection for each", || {
                let attach = || Attach::new(&connect(), &krbd);
                map_and_unmap(
                    || attach().map(spec, &MapOptions::new()).unwrap(),
                    |device| attach().unmap(device, &UnmapOptions::new()).unwrap(),
                )
            }),
        ],
    );
    wanted("8x from given parts", ratios[1] >= 8.0);
    wanted("2x with a new connection", ratios[2] >= 2.0);
}

/// The time of the two calls, without that in which udev looks into the device.
fn map_and_unmap<D, U>(map: impl FnOnce() -> D, unmap: impl FnOnce(&D) -> U) -> Duration {
    settle();
    let start = Instant::now();
    let device = map();
    let mapped = start.elapsed();
    settle();
    let start = Instant::now();
    unmap(&device);
    mapped + start.elapsed()
}

/// How long an unmap takes that udev's probe keeps waiting, from the moment when that has closed the device.
fn right_after_a_map(request: &MapRequest) {
    const ROUNDS: usize = 20;
    let krbd = krbd();
    let closed = last_closed();
    let options = UnmapOptions::new().busy_retries(u32::MAX);
    let (mut waits, mut plain, mut rounds) = (Vec::new(), Vec::new(), 0);
    while waits.len() < ROUNDS {
        rounds += 1;
        settle();
        let device = krbd.map(request).unwrap();
        settle();
        let start = Instant::now();
        krbd.unmap(&device, &options).unwrap();
        plain.push(start.elapsed());

        settle();
        let device = krbd.map(request).unwrap();
        let unmapped = krbd.unmap(&device, &options).unwrap();
        let end = Instant::now();
        // In the other rounds the unmap was there before udev.
        if unmapped[0].attempts > 1 {
            let name = device.node.file_name().unwrap().to_str().unwrap();
            waits.push(end - closed.lock().unwrap()[name]);
        }
    }
    println!("\nunmap right after a map ({ROUNDS} of {rounds} rounds met udev's probe)");
    for (what, samples) in [
        ("from the probe's close to the end of the unmap", &mut waits),
        ("an unmap that meets nobody, in the same rounds", &mut plain),
    ] {
        println!("  {what}: mean {:.1?}, median {:.1?}", mean(samples), median(samples));
    }
    wanted("at most 50 ms more, on average", mean(&waits) <= Duration::from_millis(50) + mean(&plain));
}

/// When each device node was closed last.
fn last_closed() -> Arc<Mutex<BTreeMap<String, Instant>>> {
    let closed = Arc::new(Mutex::new(BTreeMap::new()));
    let events = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    let flags = inotify::WatchFlags::CLOSE_WRITE | inotify::WatchFlags::CLOSE_NOWRITE;
    inotify::add_watch(&events, "/dev", flags).unwrap();
    let seen = Arc::clone(&closed);
    std::thread::spawn(move || {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&events, &mut buffer);
        while let Ok(event) = events.next() {
            if let Some(name) = event.file_name() {
                seen.lock().unwrap().insert(name.to_str().unwrap().to_owned(), Instant::now());
            }
        }
    });
    closed
}

fn listing() {
    const COUNT: usize = 200;
    let _without = WithoutUdev::new();
    let images: Vec<_> =
        (0..4).map(|n| TestImage::with(&format!("rbd/listed{n}"), &["--image-feature", "layering"])).collect();
    for n in 0..COUNT {
        images[n % images.len()].map("").unwrap();
    }
    let krbd = krbd();
    assert_eq!(krbd.list().unwrap().len(), COUNT);

    let ratios = compare(
        &format!("list {COUNT} mappings"),
        20,
        &mut [
            Peer::new("rbd device list --format json", 1, || program(&["device", "list", "--format", "json"])),
            Peer::new("the library", 1, || krbd.list().unwrap()),
        ],
    );
    let floor = compare(
        "the same against its floor",
        40,
        &mut [
            Peer::new("the library", 1, || krbd.list().unwrap()),
            Peer::new("read the same attributes, and nothing else", 1, read_attributes),
        ],
    );
    wanted("20x, or at most 1.2 times the reading", ratios[1] >= 20.0 || floor[1] <= 1.2);

    for image in &images {
        krbd.unmap(image.spec(), &UnmapOptions::new().if_several(IfSeveral::All)).unwrap();
    }
}

/// The files that a list is made of, in the fewest calls that read them.
fn read_attributes() -> usize {
    let names = "pool_id pool_ns name image_id current_snap snap_id cluster_fsid client_addr client_id size features \
        config_info parent pool minor major";
    let mut length = 0;
    let mut buffer = [0; 4096];
    for entry in fs::read_dir(format!("{BUS}/devices")).unwrap() {
        let directory = entry.unwrap().path();
        let block = Path::new("/sys/block").join(format!("rbd{}", directory.file_name().unwrap().to_str().unwrap()));
        for (directory, names) in [(directory, names), (block, "ro diskseq")] {
            let directory = open(directory, OFlags::PATH, Mode::empty()).unwrap();
            for name in names.split(' ') {
                let file = openat(&directory, name, OFlags::RDONLY, Mode::empty()).unwrap();
                length += rustix::io::read(&file, &mut buffer).unwrap();
            }
        }
    }
    length
}

// --- the guest -------------------------------------------------------------------------------------------------------

fn settle() {
    run("udevadm", &["settle"]);
}

fn connect() -> Cluster {
    Cluster::builder().config_file(share().join("ceph.conf")).deadline(PATIENCE).connect().unwrap()
}

/// The real program, in the guest.
fn program(arguments: &[&str]) -> String {
    let mut command = Command::new("rbd");
    command.args(arguments).env("CEPH_CONF", share().join("ceph.conf")).stderr(Stdio::inherit());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// For the bare writes, which name the key and do not have it: into this thread's keyring, as `rbd map` does.
fn give_key_to_kernel(name: &str) {
    const KEY_SPEC_THREAD_KEYRING: i64 = -1; // linux/keyctl.h
    let keyring = share().join("keyring");
    let decode = format!("sed -n 's/^[[:space:]]*key = //p' {} | head -n 1 | base64 -d", keyring.display());
    let key = Command::new("sh").args(["-c", &decode]).output().unwrap().stdout;
    let name = CString::new(name).unwrap();
    // SAFETY: add_key(2) reads the two terminated strings and `key.len()` bytes of the key, and keeps no pointer.
    let serial = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            c"ceph".as_ptr(),
            name.as_ptr(),
            key.as_ptr(),
            key.len(),
            KEY_SPEC_THREAD_KEYRING,
        )
    };
    assert!(serial > 0, "add_key: {}", std::io::Error::last_os_error());
}

fn mean(samples: &[Duration]) -> Duration {
    samples.iter().sum::<Duration>() / samples.len() as u32
}

fn median(samples: &mut [Duration]) -> Duration {
    samples.sort();
    samples[samples.len() / 2]
}

/// Says whether a figure is what was wanted; the measuring goes on.
fn wanted(what: &str, is_met: bool) {
    println!("  wanted: {what}: {}", if is_met { "met" } else { "NOT MET" });
}
