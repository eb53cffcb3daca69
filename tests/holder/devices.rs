//! Stacked devices, swap and users in the kernel.

use std::fs;

use rbd::holder::{DmTarget, HolderKind, StackedDriver, Unseen};

use super::tree::{Tree, summary};

const CLEAN: &str = "1000021 1000001 8:1 / / rw - ext4 /dev/sda1 rw\n";

#[test]
fn a_volume_on_luks_is_unrolled_from_the_mount_down() {
    let tree = Tree::new();
    tree.device("rbd2", "252:32");
    tree.dm("dm-5", "253:5", "luks-rbd", "CRYPT-LUKS2-aa11-luks-rbd", &["rbd2"]);
    tree.dm("dm-6", "253:6", "vg-lv", "LVM-xyz", &["dm-5"]);
    tree.process(1, "init", 100, "1000030 1000021 253:6 / /mnt/a rw - ext4 /dev/mapper/vg-lv rw\n");
    let holders = tree.holders("252:32");
    assert_eq!(
        summary(&holders),
        ["mount /mnt/a pid 1 on 253:6", "dm-6 vg-lv (LVM, 253:6) on 253:5", "dm-5 luks-rbd (crypt, 253:5) on 252:32",]
    );
    assert!(holders.is_complete());
}

#[test]
fn a_volume_over_two_partitions_is_closed_once_and_before_both() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    tree.device("rbd0/rbd0p1", "252:1");
    tree.device("rbd0/rbd0p2", "252:2");
    tree.dm("dm-0", "253:0", "vg-lv", "LVM-x", &["rbd0/rbd0p1", "rbd0/rbd0p2"]);
    tree.process(1, "init", 100, CLEAN);
    assert_eq!(
        summary(&tree.holders("252:0")),
        ["dm-0 vg-lv (LVM, 253:0) on 252:1", "rbd0p1 (partition, 252:1) on 252:0"]
    );
}

#[test]
fn multipath_its_partition_and_a_suspended_device_are_told_apart() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    tree.dm("dm-0", "253:0", "mpatha", "mpath-36", &["rbd0"]);
    tree.dm("dm-1", "253:1", "mpatha1", "part1-mpath-36", &["dm-0"]);
    tree.write("sys/devices/dm-1/dm/suspended", "1\n");
    tree.process(1, "init", 100, CLEAN);
    let holders = tree.holders("252:0");
    let kinds = holders.iter().filter_map(|holder| match &holder.kind {
        HolderKind::Stacked(device) => match device.driver {
            StackedDriver::Dm { target, suspended, .. } => Some((target, suspended)),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [(DmTarget::Partition, true), (DmTarget::Multipath, false)]);
}

#[test]
fn md_and_bcache_are_holders_with_their_own_mounts() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    tree.device("md0", "9:0");
    tree.write("sys/devices/md0/md/level", "raid1\n");
    tree.stack("md0", "rbd0");
    tree.device("bcache0", "251:0");
    tree.stack("bcache0", "md0");
    tree.process(1, "init", 100, "1000030 1000021 251:0 / /cached rw - xfs /dev/bcache0 rw\n");
    assert_eq!(
        summary(&tree.holders("252:0")),
        ["mount /cached pid 1 on 251:0", "bcache0 (bcache, 251:0) on 9:0", "md0 (md raid1, 9:0) on 252:0"]
    );
}

#[test]
fn a_device_that_bcache_has_registered_is_held_without_a_bcache_device() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    fs::create_dir_all(tree.path("sys/devices/rbd0/bcache")).unwrap();
    tree.process(1, "init", 100, CLEAN);
    assert_eq!(summary(&tree.holders("252:0")), ["registered with bcache on 252:0"]);
}

#[test]
fn loop_devices_over_the_device_a_partition_and_a_file_are_found() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    tree.device("rbd0/rbd0p1", "252:1");
    tree.loop_device("loop0", "7:0", "/dev/rbd0");
    tree.loop_device("loop1", "7:1", "/dev/rbd0p1 (deleted)");
    tree.loop_device("loop2", "7:2", "/mnt/a/disk image");
    tree.loop_device("loop3", "7:3", "/srv/other.img");
    tree.device("loop4", "7:4");
    let mountinfo = "1000021 1000001 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     1000030 1000021 252:0 / /mnt/a rw - ext4 /dev/rbd0 rw\n\
                     1000031 1000030 7:2 / /mnt/inner rw - ext4 /dev/loop2 rw\n";
    let process = tree.process(1, "init", 100, mountinfo);
    process.link("root", tree.path("elsewhere"));
    tree.write("elsewhere/mnt/a/disk image", "");
    tree.write("elsewhere/srv/other.img", "");
    let holders = tree.holders("252:0");
    assert_eq!(
        summary(&holders),
        [
            "loop1 (loop, 7:1) of /dev/rbd0p1 (deleted) on 252:1",
            "rbd0p1 (partition, 252:1) on 252:0",
            "loop0 (loop, 7:0) of /dev/rbd0 on 252:0",
            "mount /mnt/inner pid 1 on 7:2",
            "loop2 (loop, 7:2) of /mnt/a/disk image on 252:0",
            "mount /mnt/a pid 1 on 252:0",
        ]
    );
    assert!(holders.is_complete(), "{holders}");
}

#[test]
fn a_loop_device_whose_file_is_in_another_namespace_is_found_there() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    tree.loop_device("loop0", "7:0", "/data/disk.img");
    tree.process(1, "init", 100, CLEAN);
    let other = tree.process(2, "other", 200, "1000030 1000021 252:0 / /data rw - ext4 /dev/rbd0 rw\n");
    other.link("root", tree.path("elsewhere"));
    tree.write("elsewhere/data/disk.img", "");
    assert_eq!(
        summary(&tree.holders("252:0")),
        ["loop0 (loop, 7:0) of /data/disk.img on 252:0", "mount /data pid 2 on 252:0"]
    );
}

#[test]
fn a_backing_file_that_is_nowhere_is_unseen() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    tree.loop_device("loop0", "7:0", "/disk.img");
    tree.process(1, "init", 100, CLEAN);
    let holders = tree.holders("252:0");
    let [Unseen::BackingFile { user, path }] = holders.unseen() else { panic!("{:?}", holders.unseen()) };
    assert_eq!((user.as_str(), path.to_str()), ("loop device 7:0", Some("/disk.img")));
}

#[test]
fn swap_on_the_device_on_a_volume_and_in_a_file_is_found() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    tree.dm("dm-0", "253:0", "vg-swap", "LVM-x", &["rbd0"]);
    let process = tree.process(1, "init", 100, "1000030 1000021 252:0 / /mnt/a rw - ext4 /dev/rbd0 rw\n");
    process.link("root", tree.path("elsewhere"));
    tree.write("elsewhere/mnt/a/swap file", "");
    let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
    let swaps = "/dev/mapper/vg-swap                     partition\t1048572\t\t0\t\t-2\n\
                 /mnt/a/swap\\040file                     file\t\t1048572\t\t0\t\t-3\n\
                 /dev/rbd0                               partition\t4\t\t0\t\t-4\n";
    tree.write("proc/swaps", format!("{heading}{swaps}"));
    assert_eq!(
        summary(&tree.holders("252:0")),
        [
            "swap /dev/mapper/vg-swap on 253:0",
            "dm-0 vg-swap (LVM, 253:0) on 252:0",
            "swap /mnt/a/swap file on 252:0",
            "mount /mnt/a pid 1 on 252:0",
            "swap /dev/rbd0 on 252:0",
        ]
    );
}

#[test]
fn an_nfs_export_comes_before_the_mount_that_it_pins() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    let process = tree.process(1, "init", 100, "1000030 1000021 252:0 / /mnt/a rw - ext4 /dev/rbd0 rw\n");
    process.link("root", tree.path("elsewhere"));
    fs::create_dir_all(tree.path("elsewhere/mnt/a/my share")).unwrap();
    tree.write(
        "proc/net/rpc/nfsd.export/content",
        "#path domain(flags)\n/mnt/a/my\\040share\t10.0.0.0/24(rw,no_subtree_check,uuid=0:0:0:0)\n# /gone\t*(ro)\n",
    );
    assert_eq!(
        summary(&tree.holders("252:0")),
        ["NFS export of /mnt/a/my share to 10.0.0.0/24 on 252:0", "mount /mnt/a pid 1 on 252:0"]
    );
}

#[test]
fn a_live_file_system_without_a_mount_is_a_holder_and_what_keeps_it_is_unseen() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    fs::create_dir_all(tree.path("sys/fs/ext4/rbd0")).unwrap();
    fs::create_dir_all(tree.path("sys/fs/ext4/sda1")).unwrap();
    tree.process(1, "init", 100, CLEAN);
    let holders = tree.holders("252:0");
    assert_eq!(summary(&holders), ["live ext4 on 252:0"]);
    assert_eq!(holders.unseen(), [Unseen::FileSystemUser { file_system: "ext4".into() }]);
}

#[test]
fn a_live_file_system_with_a_mount_is_not_listed_beside_it() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    fs::create_dir_all(tree.path("sys/fs/ext4/rbd0")).unwrap();
    tree.process(1, "init", 100, "1000030 1000021 252:0 / /mnt/a rw - ext4 /dev/rbd0 rw\n");
    let holders = tree.holders("252:0");
    assert_eq!(summary(&holders), ["mount /mnt/a pid 1 on 252:0"]);
    assert!(holders.is_complete());
}
