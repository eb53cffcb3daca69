//! Devices that are busy, freed: the stories of the README, on the kernel's own driver.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rbd::krbd::{Device, UnmapOptions};
use rbd::remedy::{Action, Outcome, Policy, Release, Released};
use rbd::{Details, ErrorKind, Holders};

use crate::support::*;

/// A shell script in a mount namespace of its own, which says `ready` and then waits. It ends with the test.
struct Leak(Child);

impl Leak {
    fn new(script: &str) -> Self {
        let script = format!("{script}; echo ready; read line || true");
        let mut leak = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-ec", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(leak.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{script}");
        Self(leak)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    fn end(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

impl Drop for Leak {
    fn drop(&mut self) {
        self.end();
    }
}

fn sh(script: &str) -> String {
    run("sh", &["-ec", script])
}

/// An image of 256 MiB, since some formats need room.
fn large(name: &str) -> TestImage {
    let image = TestImage::new(name);
    rbd(&["resize", "--no-progress", "--size", "256M", "--", &image.0]);
    image
}

fn release(device: &Device, policy: Policy) -> Released {
    let start = Instant::now();
    let released = Release::new(policy.deadline(PATIENCE)).run(device).unwrap();
    println!("{released}\nafter {:?}", start.elapsed());
    released
}

/// What was done, without what was not.
fn done(released: &Released) -> Vec<String> {
    let done = released.steps.iter().filter(|step| matches!(step.outcome, Outcome::Done));
    done.map(|step| step.remedy.action.to_string()).collect()
}

fn assert_freed(released: &Released, image: &TestImage) {
    assert!(released.is_free(), "{released}");
    assert_eq!(image.watchers(), "Watchers: none\n");
}

#[test]
fn busy_after_the_pod_is_gone() {
    let image = TestImage::new("pvc-1");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let at = "/var/lib/kubelet/pods/0b9e/volumes/kubernetes.io~csi/pvc-1/mount";
    sh(&format!("mkfs.ext4 -q {node}; mkdir -p {at}; mount {node} {at}"));
    // As an agent does that has the host's mounts as they were when it started.
    let mut agent = Leak::new("printf node-exporter >/proc/self/comm");
    sh(&format!("umount {at}"));

    // What an operator sees.
    let error = krbd().unmap(&device, &UnmapOptions::new().busy_retries(100)).unwrap_err();
    assert_eq!((error.kind(), error.details()), (ErrorKind::Busy, &Details::Attempts(101)));
    let lsof = Command::new("lsof").args(["-w", node, at]).output().unwrap();
    assert!(lsof.stdout.is_empty(), "{lsof:?}");

    let (code, tree, _) = text(&Command::new(example("why_busy")).arg(node).output().unwrap());
    println!("{tree}");
    let (id, number, pid) = (device.id, device.number, agent.pid());
    let namespace = std::fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap();
    let namespace = namespace.to_str().unwrap().trim_start_matches("mnt:[").trim_end_matches(']');
    let expected = format!(
        "\
rbd{id} ({number}) is held by
└─ mount {at}
      ext4, private
      in mount namespace {namespace} of pid {pid} (node-exporter)
what frees it
├─ unmount {at}
│     in the mount namespace of pid {pid} (node-exporter)
├─ unmap {node} (rbd/pvc-1)
└─ lossy: unmap {node} (rbd/pvc-1) by force,
      what was not written back is lost, 1 mount stays and fails
"
    );
    assert_eq!((code, tree), (2, expected));

    let (code, report, _) = text(&Command::new(example("why_busy")).args([node, "--release"]).output().unwrap());
    println!("{report}");
    let expected = format!(
        "\
what was done
├─ unmount {at}
│     in the mount namespace of pid {pid} (node-exporter): done
└─ unmap {node} (rbd/pvc-1): done
it is free
"
    );
    assert_eq!((code, report), (0, expected));
    assert_eq!(image.watchers(), "Watchers: none\n");
    assert!(agent.is_alive());
}

#[test]
fn force_takes_the_device_and_says_what_stays() {
    let image = TestImage::new("forced-away");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let volume = tempfile::tempdir().unwrap();
    let at = volume.path().to_str().unwrap();
    sh(&format!("mkfs.ext4 -q {node}"));
    let mut agent = Leak::new(&format!("mount {node} {at}; exec 3>{at}/open"));

    let released = release(&device, Policy::new());
    assert!(released.is_mapped && !released.is_free());
    let not_allowed = released.steps.iter().filter(|step| matches!(step.outcome, Outcome::NotAllowed));
    let [Action::UnmountLazily(_), Action::ForceUnmap { leaves, .. }] =
        &not_allowed.map(|step| &step.remedy.action).collect::<Vec<_>>()[..]
    else {
        panic!("{released}")
    };
    assert_eq!(leaves.len(), 2);
    assert!(krbd().device(device.id).unwrap().is_some());

    let released = release(&device, Policy::new().force());
    assert_eq!(done(&released).len(), 1, "{released}");
    assert!(!released.is_mapped && !released.is_free());
    assert_eq!(released.left.as_ref().unwrap().len(), 2);
    assert_eq!((krbd().device(device.id).unwrap(), image.watchers().as_str()), (None, "Watchers: none\n"));

    // What stays goes in the end, also after the mapping.
    agent.end();
    assert!(Holders::of(device.number).run().unwrap().is_empty());
}

#[test]
fn a_mapping_that_got_the_id_in_the_meantime_is_left_alone() {
    let (image, other) = (TestImage::new("old"), TestImage::new("new"));
    let device = image.map("").unwrap();
    unmap(&device);
    let now = other.map("").unwrap();
    assert_eq!((now.id, now.number), (device.id, device.number));
    let error = Release::new(Policy::new().allow_lossy().force()).run(&device).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    assert!(krbd().device(now.id).unwrap().is_some_and(|device| device.is_same_mapping(&now)));
    // A deadline that never comes is none.
    let released = Release::new(Policy::new().deadline(Duration::MAX)).run(&now).unwrap();
    assert!(released.is_free() && !released.is_mapped, "{released}");
    // Nothing is left to do for a mapping that is gone.
    let released = Release::new(Policy::new()).run(&device).unwrap();
    assert!(released.is_free() && released.steps.is_empty(), "{released}");
}

#[test]
fn volumes_on_luks_on_a_partition_are_closed_by_one_call() {
    let image = TestImage::new("luks");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let volume = tempfile::tempdir().unwrap();
    let at = volume.path().to_str().unwrap();
    sh(&format!(
        "printf ',48M\\n' | sfdisk -q {node}; udevadm settle; modprobe -a dm_mod dm_crypt
         printf key | cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 {node}p1 -
         printf key | cryptsetup luksOpen --key-file - {node}p1 luks-rbd
         pvcreate -qq -ff -y /dev/mapper/luks-rbd; vgcreate -qq vg /dev/mapper/luks-rbd
         lvcreate -qq -y -l 50%FREE -n one vg; lvcreate -qq -y -l 100%FREE -n two vg
         mkfs.ext4 -q /dev/vg/one; mkswap -q /dev/vg/two; swapon /dev/vg/two"
    ));
    let _agent = Leak::new(&format!("mount /dev/vg/one {at}"));
    let released = release(&device, Policy::new());
    assert_freed(&released, &image);
    let done = done(&released);
    let position = |start: &str| done.iter().position(|action| action.starts_with(start)).unwrap();
    let crypt = done.iter().position(|action| action.starts_with("close ") && action.contains(" luks-rbd (crypt, "));
    assert_eq!((done.len(), crypt.unwrap()), (6, 4), "{done:?}");
    assert!(position("unmount ") < 4 && position("swapoff /dev/") < 4 && position("deactivate ") < 4, "{done:?}");
}

#[test]
fn md_over_a_partition_is_stopped() {
    let image = TestImage::new("md");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let volume = tempfile::tempdir().unwrap();
    let at = volume.path().to_str().unwrap();
    sh(&format!(
        "printf ',24M\\n,24M\\n' | sfdisk -q {node}; udevadm settle; modprobe -a md_mod raid1
         mdadm --create /dev/md7 --quiet --run --level=1 --raid-devices=2 --metadata=1.0 --assume-clean {node}p1 {node}p2
         mkfs.ext4 -q /dev/md7; udevadm settle"
    ));
    let _agent = Leak::new(&format!("mount /dev/md7 {at}"));
    let found = Holders::of(device.number).run().unwrap();
    let lines: Vec<String> = found.iter().map(|holder| holder.kind.to_string()).collect();
    assert!(lines.iter().any(|line| line == "md7 (md raid1, 9:7)"), "{found}");
    let released = release(&device, Policy::new());
    assert_freed(&released, &image);
    let done = done(&released);
    assert!(done[0].starts_with("unmount ") && done[1] == "stop md7 (md raid1, 9:7)", "{done:?}");
}

#[test]
fn bcache_is_stopped_whichever_part_of_it_the_device_is() {
    for (name, role) in [("backing", "--bdev"), ("cache", "--cache")] {
        let image = large(name);
        let device = image.map("").unwrap();
        let node = device.node.to_str().unwrap();
        sh(&format!(
            "modprobe bcache; make-bcache --wipe-bcache --bucket 64k {role} {node}
             udevadm settle; test -e /sys/block/$(basename {node})/bcache || echo {node} >/sys/fs/bcache/register"
        ));
        let found = Holders::of(device.number).run().unwrap();
        assert!(!found.is_empty(), "{role}: {found}");
        let released = release(&device, Policy::new());
        assert_freed(&released, &image);
    }
}

#[test]
fn a_btrfs_file_system_is_found_by_its_device_and_unmounted() {
    let image = large("btrfs");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let volume = tempfile::tempdir().unwrap();
    let at = volume.path().to_str().unwrap();
    sh(&format!("modprobe btrfs; mkfs.btrfs -q {node}; udevadm settle"));
    let _agent = Leak::new(&format!(
        "mount {node} {at}; btrfs -q subvolume create {at}/sub; mkdir {at}/at; mount -o subvol=sub {node} {at}/at"
    ));
    let found = Holders::of(device.number).run().unwrap();
    assert_eq!(found.len(), 2, "{found}");
    let released = release(&device, Policy::new());
    assert_freed(&released, &image);
    assert_eq!(done(&released).len(), 3, "{released}");
}

#[test]
fn nothing_is_tried_on_a_suspended_device_until_it_is_resumed() {
    let image = TestImage::new("frozen");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let volume = tempfile::tempdir().unwrap();
    let at = volume.path().to_str().unwrap();
    sh(&format!(
        "modprobe dm_mod; dmsetup create --table '0 32768 linear {node} 0' over; mkfs.ext4 -q /dev/mapper/over"
    ));
    let _agent = Leak::new(&format!("mount /dev/mapper/over {at}; echo x >{at}/dirty"));
    sh("dmsetup suspend --nolockfs over");
    let start = Instant::now();
    let released = release(&device, Policy::new());
    let elapsed = start.elapsed();
    sh("dmsetup resume over");
    assert!(released.is_mapped && elapsed < Duration::from_secs(60), "{elapsed:?}: {released}");
    let [
        (Action::Resume(_), Outcome::LeftToAPerson),
        (Action::Unmount(_), Outcome::InUse),
        (Action::Close(_), Outcome::InUse),
        (Action::Unmap(_), Outcome::InUse),
        (Action::ForceUnmap { .. }, Outcome::NotAllowed),
    ] = &released.steps.iter().map(|step| (&step.remedy.action, &step.outcome)).collect::<Vec<_>>()[..]
    else {
        panic!("{released}")
    };
    let released = release(&device, Policy::new());
    assert_freed(&released, &image);
}

#[test]
fn a_cluster_that_does_not_answer_ends_the_release_and_not_the_program() {
    let image = TestImage::new("stalled");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let volume = tempfile::tempdir().unwrap();
    let at = volume.path().to_str().unwrap();
    sh(&format!("mkfs.ext4 -q {node}"));
    let _agent = Leak::new(&format!("mount {node} {at}; echo x >{at}/dirty"));
    ceph(&["osd", "pause"]);
    let start = Instant::now();
    let released = Release::new(Policy::new().deadline(Duration::from_secs(5))).run(&device);
    let elapsed = start.elapsed();
    ceph(&["osd", "unpause"]);
    let released = released.unwrap();
    println!("{released}");
    assert!(!released.is_free() && elapsed < Duration::from_secs(20), "{elapsed:?}");
    let stuck = released.steps.iter().find_map(|step| match (&step.remedy.action, &step.outcome) {
        (Action::Unmount(_), Outcome::Failed(error)) => Some((error.kind(), error.details())),
        _ => None,
    });
    assert_eq!(stuck, Some((ErrorKind::TimedOut, &Details::StillRunning)), "{released}");
    // The thread that was left behind gets through, now that the cluster answers.
    let released = release(&device, Policy::new());
    assert_freed(&released, &image);
}
