//! Who holds a mapped image, with the kernel's own device mapper.

use std::process::{Command, Stdio};
use std::time::Duration;

use rbd::Holders;
use rbd::holder::HolderKind;
use rbd::krbd::{Device, UnmapOptions};

use crate::support::*;

/// The holders, once there are as many as expected: udev looks into a new device for a moment, and is a holder then.
fn holders(device: &Device, count: usize) -> Holders {
    let found = until(Duration::from_secs(30), || {
        let holders = Holders::of(device.number).run().unwrap();
        (holders.len() == count && holders.is_complete()).then_some(holders)
    });
    println!("{found}");
    found
}

fn lines(holders: &Holders) -> Vec<String> {
    holders.iter().map(|holder| holder.kind.to_string()).collect()
}

#[test]
fn a_mount_that_leaked_into_another_namespace_is_named_and_its_end_frees_the_device() {
    let image = TestImage::new("leaked");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let mount_point = mount_new(node);
    let at = mount_point.path().to_str().unwrap();
    // Private: what is unmounted outside stays mounted in there.
    let mut leak = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", "read line"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    holders(&device, 2);
    run("umount", &[at]);

    let found = holders(&device, 1);
    let HolderKind::Mount(mount) = &found.iter().next().unwrap().kind else { panic!("{found}") };
    assert_eq!((mount.process.pid, mount.in_own_namespace), (leak.id().try_into().unwrap(), false));
    assert!(mount.propagation.is_private() && mount.mount_point == mount_point.path());
    assert!(krbd().unmap(&device, &UnmapOptions::new().busy_retries(0)).is_err());

    drop(leak.stdin.take());
    leak.wait().unwrap();
    holders(&device, 0);
    unmap(&device);
}

#[test]
fn a_volume_on_a_crypt_device_on_a_partition_is_unrolled_also_while_it_is_suspended() {
    let image = TestImage::new("stacked");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let table = format!("printf ',32M\\n' | sfdisk -q {node} && udevadm settle");
    run("sh", &["-ec", &table]);
    run("modprobe", &["-a", "dm_mod", "loop"]);
    // The UUIDs that cryptsetup and LVM give tell the kinds; the tables are plain.
    for (name, uuid, below) in [
        ("luks-rbd", "CRYPT-LUKS2-aa11-luks-rbd", format!("{node}p1")),
        ("vg-lv", "LVM-xyz", "/dev/mapper/luks-rbd".to_owned()),
    ] {
        let table = format!("0 32768 linear {below} 0");
        run("dmsetup", &["create", "--uuid", uuid, "--table", &table, name]);
    }
    let mount_point = mount_new("/dev/mapper/vg-lv");
    let at = mount_point.path().to_str().unwrap();

    let found = holders(&device, 4);
    let [mount, volume, crypt, partition] = &lines(&found)[..] else { panic!("{found}") };
    assert!(mount.starts_with(&format!("mount {at}, ext4")), "{mount}");
    assert!(
        volume.contains("vg-lv (LVM, ") && crypt.contains("luks-rbd (crypt, ") && partition.contains("(partition, ")
    );

    run("dmsetup", &["suspend", "--nolockfs", "vg-lv"]);
    let suspended = Holders::of(device.number).deadline(Duration::from_secs(20)).run();
    run("dmsetup", &["resume", "vg-lv"]);
    let suspended = lines(&suspended.unwrap());
    assert!(suspended.iter().any(|line| line.contains(", suspended)")), "{suspended:?}");

    // A working directory outlives a lazy unmount.
    let mut sitter =
        Command::new("sh").args(["-c", "read line"]).current_dir(at).stdin(Stdio::piped()).spawn().unwrap();
    run("umount", &["--lazy", at]);
    let found = holders(&device, 4);
    let HolderKind::Files(user) = &found.iter().next().unwrap().kind else { panic!("{found}") };
    assert!(user.detached && user.process.pid == i32::try_from(sitter.id()).unwrap());
    drop(sitter.stdin.take());
    sitter.wait().unwrap();

    // Closed in the order of the list.
    holders(&device, 3);
    run("dmsetup", &["remove", "--retry", "vg-lv"]);
    run("dmsetup", &["remove", "--retry", "luks-rbd"]);
    holders(&device, 0);
    unmap(&device);
}

#[test]
fn swap_on_the_device_and_a_loop_device_over_it_are_found() {
    let image = TestImage::new("swap");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    run("mkswap", &["-q", node]);
    run("swapon", &[node]);
    assert_eq!(lines(&holders(&device, 1)), [format!("swap on {node}")]);
    run("swapoff", &[node]);

    run("modprobe", &["loop"]);
    let upper = run("losetup", &["--find", "--show", node]);
    let found = lines(&holders(&device, 1));
    assert!(found[0].ends_with(&format!("of {node}")), "{found:?}");
    run("losetup", &["--detach", upper.trim()]);
    unmap(&device);
}

#[test]
fn after_a_forced_unmap_the_mount_is_still_named() {
    let image = TestImage::new("gone");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let mount_point = mount_new(node);
    krbd().unmap(&device, &UnmapOptions::new().force().deadline(Duration::from_secs(60))).unwrap();
    let found = Holders::of(device.number).run().unwrap();
    assert_eq!((found.name(), found.len(), found.is_complete()), (None, 1, false), "{found}");
    run("umount", &[mount_point.path().to_str().unwrap()]);
}
