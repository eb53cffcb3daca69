//! Who uses an image, where the users are kernels: this guest's own, and programs outside.

use std::path::PathBuf;

use rbd::krbd::Device;
use rbd::remedy::{Policy, Release};
use rbd::usage::{Client, Fence, Place, State, Survey, unfence};
use rbd::{EntityAddress, ErrorKind, WatcherKind};

use super::*;

/// An emulated processor is slow to answer.
const ASK: Duration = Duration::from_secs(10);

fn survey() -> Survey {
    Survey::new(cluster()).ask_watchers(ASK)
}

fn users(image: &TestImage) -> Vec<Client> {
    survey().of(&image.spec()).unwrap().clients
}

/// It takes the lock with the first write.
fn write(device: &Device) {
    run("dd", &["if=/dev/zero", &format!("of={}", device.node.display()), "bs=4k", "count=1", "oflag=direct"]);
}

#[test]
fn mappings_are_one_client_with_its_watch_and_its_lock_and_readers_have_none() {
    let image = TestImage::new("used");
    let written = image.map("").unwrap();
    run("mkfs.ext4", &["-q", written.node.to_str().unwrap()]);
    rbd(&["snap", "create", "--no-progress", "rbd/used@before"]);
    let snapshot = TestImage("rbd/used@before".into());
    let devices = [written, image.map("ro").unwrap(), snapshot.map("").unwrap()];
    let mount_point = tempfile::tempdir().unwrap();
    let at = mount_point.path().to_str().unwrap();
    run("mount", &[devices[0].node.to_str().unwrap(), at]);

    let usage = survey().of(&image.spec()).unwrap();
    assert_eq!(usage.unseen, []);
    let [client] = usage.clients.as_slice() else { panic!("{usage}") };
    assert_eq!((client.id, client.kind), (devices[0].client_id, WatcherKind::Kernel));
    // Also the kernel answers a question that it does not understand.
    assert_eq!((&client.place, client.state), (&Place::ThisHost, State::Alive));
    assert_eq!((client.watches.len(), client.locks.len(), client.has_lost_its_watch()), (1, 1, false));
    let mappings: Vec<_> = client.mappings.iter().map(|m| (m.device.id, m.is_writable())).collect();
    let [a, b, c] = devices.each_ref().map(|device| device.id);
    assert_eq!(mappings, [(a, true), (b, false), (c, false)]);
    let text = usage.to_string();
    assert!(text.contains(&format!("mount {at}")) && text.contains("snapshot before"), "{text}");
    let first = usage.remedies()[0].to_string();
    assert!(first.contains("unmount") && first.contains(at), "{first}");

    let released = usage.release(&Release::new(Policy::new()));
    assert_eq!(released.len(), 3);
    assert!(released.iter().all(|released| released.as_ref().unwrap().is_free()), "{released:?}");
    rbd(&["snap", "purge", "--no-progress", "rbd/used"]);
    assert!(users(&image).is_empty());
}

#[test]
fn a_fenced_kernel_client_loses_all_its_mappings_which_stay_in_sight() {
    let images = [TestImage::new("fenced-1"), TestImage::new("fenced-2")];
    // A kernel client for these two alone.
    let devices = images.each_ref().map(|image| image.map("osd_idle_ttl=61").unwrap());
    assert_eq!(devices[0].client_id, devices[1].client_id);
    write(&devices[0]);
    let [client] = users(&images[0]).try_into().unwrap();
    let fence = Fence::new(cluster(), client.watches[0]).survey(survey());
    let refused = fence.run(&images[0].spec()).unwrap_err();
    assert_eq!((refused.kind(), refused.hint()), (ErrorKind::Busy, Some("it is on this host: end it here")));

    let fenced = fence.even_if_alive().even_if_local().run(&images[0].spec()).unwrap();
    let hit: Vec<_> = fenced.plan.devices.iter().map(|device| device.id).collect();
    assert_eq!(hit, devices.each_ref().map(|device| device.id));
    assert_eq!(fenced.plan.images.as_deref(), Some(["fenced-1", "fenced-2"].map(String::from).as_slice()));
    let text = fenced.to_string();
    assert!(devices.iter().all(|device| text.contains(device.node.to_str().unwrap())), "{text}");
    assert_eq!((fenced.broken.len(), fenced.watches_left.len()), (1, 0));

    for image in &images {
        let [client] = users(image).try_into().unwrap();
        assert!(client.has_lost_its_watch() && client.is_blocklisted(), "{client:?}");
        assert_eq!((client.mappings.len(), client.place), (1, Place::ThisHost));
    }
    for device in &devices {
        unmap(device);
    }
    unfence(cluster(), &fenced.plan.address).unwrap();
}

/// A program outside that writes to an image and keeps it; it ends with the guard.
struct Outside {
    pid: String,
    files: [PathBuf; 2],
}

impl Outside {
    fn new(image: &TestImage) -> Self {
        let files = ["fifo", "held"].map(|name| share().join(format!("{}-{name}", std::process::id())));
        let [fifo, said] = files.each_ref().map(|path| path.to_str().unwrap());
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/hold-image");
        // The program holds its own input open, which so never ends.
        let script = r#"mkfifo "$1"; "$3" "$4" <>"$1" >"$2" 2>&1 & echo $!"#;
        let pid = outside(&["sh", "-c", script, "hold", fifo, said, program, &image.0]).trim().to_owned();
        until(PATIENCE, || std::fs::read_to_string(&files[1]).ok().filter(|said| said.contains("held")));
        Self { pid, files }
    }

    fn signal(&self, name: &str) {
        outside(&["sh", "-c", r#"kill -s "$1" "$2""#, "signal", name, &self.pid]);
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = try_outside(&["sh", "-c", r#"kill -s KILL "$1""#, "signal", &self.pid]);
        self.files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
}

/// Story 2 with a kernel as the new user: the image maps here, and is written, while the old user is still frozen.
#[test]
fn the_image_of_a_frozen_client_maps_here_once_that_is_fenced() {
    let image = TestImage::new("frozen");
    let old = Outside::new(&image);
    let [alive] = users(&image).try_into().unwrap();
    assert_eq!((alive.state, alive.kind, alive.locks.len()), (State::Alive, WatcherKind::UserSpace, 1));
    // By its address the guest cannot tell whether it is here: the network between is translated.
    let fence = || Fence::new(cluster(), alive.watches[0]).survey(survey()).even_if_local();
    assert_eq!(fence().run(&image.spec()).unwrap_err().kind(), ErrorKind::Busy);

    old.signal("STOP");
    assert_eq!(users(&image)[0].state, State::Silent);
    let fenced = fence().run(&image.spec()).unwrap();
    let address: EntityAddress = fenced.plan.address;
    assert_eq!((Some(address), fenced.broken.len()), (alive.address, 1));
    let device = image.map("exclusive").unwrap();
    write(&device);
    old.signal("CONT");
    let [new] = users(&image).try_into().unwrap();
    assert_eq!((new.id, new.locks.len(), new.state), (device.client_id, 1, State::Alive));
    unmap(&device);
    drop(old);
    unfence(cluster(), &address).unwrap();
}
