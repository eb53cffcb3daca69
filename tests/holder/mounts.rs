//! Mounts, in every mount namespace.

use std::path::Path;

use rbd::holder::{HolderKind, Mount, Unseen};

use super::tree::{Tree, summary};

const CLEAN: &str = "1000021 1000001 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n";

fn mounts(tree: &Tree, device: &str) -> Vec<Mount> {
    let holders = tree.holders(device);
    let mounts = holders.iter().map(|holder| match &holder.kind {
        HolderKind::Mount(mount) => mount.clone(),
        other => panic!("{other}"),
    });
    mounts.collect()
}

#[test]
fn a_mount_that_leaked_into_a_container_is_found_with_the_container() {
    let id = "3f4e1c0a9b8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f";
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    tree.process(1, "systemd", 100, CLEAN);
    let mountinfo =
        "1001155 1001088 252:16 / /rootfs/var/lib/kubelet/plugins/globalmount rw,relatime - ext4 /dev/rbd1 rw\n";
    let cadvisor = tree.process(3091, "cadvisor", 200, mountinfo);
    cadvisor.write("cgroup", &format!("0::/kubepods/burstable/pod0b9e6f3c-5a39-4f7e-9a53-1f7f0a3c2b11/{id}\n"));

    let mounts = mounts(&tree, "252:16");
    let [mount] = &mounts[..] else { panic!("{mounts:?}") };
    assert_eq!((mount.id, mount.namespace, mount.in_own_namespace), (1_001_155, 200, false));
    assert_eq!(mount.mount_point, Path::new("/rootfs/var/lib/kubelet/plugins/globalmount"));
    assert!(mount.propagation.is_private());
    assert_eq!((mount.process.pid, mount.process.comm.as_str()), (3091, "cadvisor"));
    assert_eq!(mount.process.container.as_deref(), Some(id));
    assert_eq!(mount.process.pod.as_deref(), Some("0b9e6f3c-5a39-4f7e-9a53-1f7f0a3c2b11"));
    assert!(tree.holders("252:16").is_complete());
}

#[test]
fn the_number_counts_and_not_the_name_that_was_mounted() {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    let mountinfo = "1000030 1000021 252:16 / /renamed rw - ext4 /dev/root rw\n1000031 1000021 252:32 / /other rw - ext4 /dev/rbd1 rw\n";
    tree.process(1, "init", 100, mountinfo);
    assert_eq!(summary(&tree.holders("252:16")), ["mount /renamed pid 1 on 252:16"]);
}

#[test]
fn a_namespace_is_one_holder_however_many_processes_are_in_it() {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    for pid in [7, 8, 9, 70] {
        tree.process(pid, "sh", 100, "1000030 1000021 252:16 / /mnt/a rw - ext4 /dev/rbd1 rw\n");
    }
    assert_eq!(summary(&tree.holders("252:16")), ["mount /mnt/a pid 7 on 252:16"]);
}

#[test]
fn each_root_in_a_namespace_is_read_and_a_mount_that_two_of_them_show_is_listed_once() {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    tree.process(1, "init", 100, "1000030 1000021 252:16 / /mnt/a rw - ext4 /dev/rbd1 rw\n");
    let chrooted =
        "1000030 1000021 252:16 / /a rw - ext4 /dev/rbd1 rw\n1000031 1000021 252:16 / /hidden rw - ext4 /dev/rbd1 rw\n";
    tree.process(9, "chrooted", 100, chrooted).link("root", "/dev");
    assert_eq!(summary(&tree.holders("252:16")), ["mount /mnt/a pid 1 on 252:16", "mount /hidden pid 9 on 252:16"],);
}

#[test]
fn a_single_threads_own_namespace_is_read() {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    tree.process(1, "init", 100, CLEAN).thread(12, 300, "1000030 1000021 252:16 / /private rw - ext4 /dev/rbd1 rw\n");
    let mounts = mounts(&tree, "252:16");
    assert_eq!((mounts[0].process.pid, mounts[0].process.tid, mounts[0].namespace), (1, Some(12), 300));
}

#[test]
fn a_first_thread_that_has_ended_does_not_hide_the_others() {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    tree.process(1, "init", 100, CLEAN);
    let process = tree.process(20, "half-dead", 100, CLEAN);
    std::fs::remove_file(process.0.join("ns/mnt")).unwrap();
    process.write("stat", "20 (half) dead) Z 1 20 20 0 -1");
    process.thread(21, 300, "1000030 1000021 252:16 / /private rw - ext4 /dev/rbd1 rw\n");
    assert_eq!(summary(&tree.holders("252:16")), ["mount /private pid 20 on 252:16"]);
}

#[test]
fn mounts_of_partitions_are_found_and_idle_partitions_are_not_listed() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    tree.device("rbd0/rbd0p1", "252:1");
    tree.device("rbd0/rbd0p2", "252:2");
    tree.process(1, "init", 100, "1000030 1000021 252:2 / /data rw - xfs /dev/rbd0p2 rw\n");
    let (mount, partition) = ("mount /data pid 1 on 252:2", "rbd0p2 (partition, 252:2) on 252:0");
    assert_eq!(summary(&tree.holders("252:0")), [mount, partition]);
    assert_eq!(summary(&tree.holders("252:2")), [mount]);
    assert!(tree.holders("252:1").is_empty());
}

#[test]
fn deeper_and_later_mounts_come_first() {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    let mountinfo = "1000030 1000021 252:16 / /a rw - ext4 /dev/rbd1 rw\n\
                     1000031 1000030 252:16 /b /a/b/c rw - ext4 /dev/rbd1 rw\n\
                     1000029 1000030 252:16 / /a rw - ext4 /dev/rbd1 rw\n\
                     1000050 1000031 0:44 / /a/b/c/tmp rw - tmpfs tmpfs rw\n";
    tree.process(1, "init", 100, mountinfo);
    let mounts = mounts(&tree, "252:16");
    assert_eq!(mounts.iter().map(|mount| mount.id).collect::<Vec<_>>(), [1_000_031, 1_000_029, 1_000_030]);
    assert_eq!(mounts[0].root, Path::new("/b"));
    assert_eq!(mounts[0].submounts, [Path::new("/a/b/c/tmp")]);
    assert_eq!(mounts[2].submounts, [Path::new("/a/b/c"), Path::new("/a")]);
}

#[test]
fn strange_mount_points_are_read_as_they_are() {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    let mountinfo = "1000030 1000021 252:16 / /a\\040b\\012c\\134d ro - ext4 /dev/rbd1 rw\n\
                     1000031 1000021 252:16 / /run/netns/gone//deleted rw - ext4 /dev/rbd1 rw\n";
    tree.process(1, "init", 100, mountinfo);
    let mounts = mounts(&tree, "252:16");
    assert_eq!(mounts[1].mount_point, Path::new("/a b\nc\\d"));
    assert!(mounts[1].read_only && !mounts[1].mount_point_deleted);
    assert_eq!(mounts[0].mount_point, Path::new("/run/netns/gone"));
    assert!(mounts[0].mount_point_deleted);
}

#[test]
fn btrfs_is_found_by_its_devices() {
    let tree = Tree::new();
    for (name, number) in [("rbd1", "252:16"), ("rbd2", "252:32"), ("rbd3", "252:48")] {
        tree.device(name, number);
    }
    tree.write("sys/fs/btrfs/features/x", "");
    for (uuid, name) in [("aaaa", "rbd1"), ("aaaa", "rbd2"), ("bbbb", "rbd3")] {
        let devices = tree.path(&format!("sys/fs/btrfs/{uuid}/devices"));
        std::fs::create_dir_all(&devices).unwrap();
        std::os::unix::fs::symlink(tree.path(&format!("sys/devices/{name}")), devices.join(name)).unwrap();
    }
    let mountinfo =
        "1000030 1000021 0:44 /vol /two rw - btrfs /dev/rbd1 rw\n1000031 1000021 0:45 / /one rw - btrfs /dev/rbd3 rw\n";
    tree.process(1, "init", 100, mountinfo);
    // The mount names rbd1, and holds rbd2 as well.
    assert_eq!(summary(&tree.holders("252:16")), ["mount /two pid 1 on 252:16"]);
    assert_eq!(summary(&tree.holders("252:32")), ["mount /two pid 1 on 252:32"]);
    assert!(tree.holders("252:32").is_complete());
}

#[test]
fn a_btrfs_mount_of_an_unknown_device_is_not_passed_over() {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    let devices = tree.path("sys/fs/btrfs/aaaa/devices");
    std::fs::create_dir_all(&devices).unwrap();
    std::os::unix::fs::symlink(tree.path("sys/devices/rbd1"), devices.join("rbd1")).unwrap();
    tree.process(1, "init", 100, "1000030 1000021 0:44 / /b rw - btrfs /srv/dev/x rw\n");
    let holders = tree.holders("252:16");
    assert!(
        holders
            .unseen()
            .iter()
            .any(|unseen| matches!(unseen, Unseen::BtrfsMount { source, .. } if source == "/srv/dev/x"))
    );
}

#[test]
fn a_namespace_that_only_a_file_keeps_is_unseen_with_the_file() {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    let mountinfo = "1000030 1000021 0:4 mnt:[100] /run/own rw - nsfs nsfs rw\n\
                     1000031 1000021 0:4 mnt:[999] /run/kept rw - nsfs nsfs rw\n\
                     1000032 1000021 0:4 net:[998] /run/netns/a rw - nsfs nsfs rw\n";
    tree.process(1, "init", 100, mountinfo);
    let holders = tree.holders("252:16");
    assert!(holders.is_empty() && !holders.is_complete());
    let [Unseen::Namespace { number: 999, file, process }] = holders.unseen() else { panic!("{:?}", holders.unseen()) };
    assert_eq!((file.as_path(), process.pid), (Path::new("/run/kept"), 1));
}

#[test]
fn after_a_forced_unmap_the_mount_is_still_found() {
    let tree = Tree::new();
    tree.process(1, "init", 100, "1000030 1000021 252:16 / /mnt/a rw - ext4 /dev/rbd1 rw\n");
    let holders = tree.holders("252:16");
    assert_eq!(summary(&holders), ["mount /mnt/a pid 1 on 252:16"]);
    assert_eq!(holders.name(), None);
    // What was stacked on it cannot be known any more.
    assert!(!holders.is_complete());
}
