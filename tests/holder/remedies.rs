//! What frees a device, in which order.

use rbd::krbd::{Device, Krbd};
use rbd::remedy::{By, Risk, remedies};

use super::tree::Tree;

impl Tree {
    /// The tree's device 252:0 as a mapping of `kube/pvc-1`.
    fn mapping(&self) -> Device {
        for (attribute, value) in
            [("major", "252"), ("minor", "0"), ("pool", "kube"), ("name", "pvc-1"), ("current_snap", "-")]
        {
            self.write(&format!("sys/bus/rbd/devices/0/{attribute}"), format!("{value}\n"));
        }
        let krbd = Krbd::with_roots(self.path("sys"), "/dev", self.path("proc"));
        krbd.device(0).unwrap().unwrap()
    }

    fn remedies(&self) -> Vec<String> {
        remedies(&self.holders("252:0"), Some(&self.mapping())).iter().map(ToString::to_string).collect()
    }
}

fn tree() -> Tree {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    tree
}

#[test]
fn a_free_device_is_unmapped_and_never_by_force() {
    let tree = tree();
    tree.process(1, "init", 100, "");
    assert_eq!(tree.remedies(), ["unmap /dev/rbd0 (kube/pvc-1)"]);
    assert!(remedies(&tree.holders("252:0"), None).is_empty());
}

#[test]
fn a_stack_is_closed_from_the_top_down_and_then_unmapped() {
    let tree = tree();
    tree.device("rbd0/rbd0p1", "252:1");
    tree.dm("dm-5", "253:5", "luks-rbd", "CRYPT-LUKS2-aa11-luks-rbd", &["rbd0/rbd0p1"]);
    tree.dm("dm-6", "253:6", "vg-lv", "LVM-xyz", &["dm-5"]);
    tree.process(1, "init", 100, "1000030 1000021 253:6 / /mnt/a\\012b rw shared:7 - ext4 /dev/mapper/vg-lv rw\n");
    tree.process(33, "sh", 200, "1000040 1000021 253:6 / /leak rw - ext4 /dev/mapper/vg-lv rw\n");
    assert_eq!(
        tree.remedies(),
        [
            "unmount /mnt/a\\012b",
            "unmount /leak in the mount namespace of pid 33 (sh)",
            "deactivate dm-6 vg-lv (LVM, 253:6)",
            "close dm-5 luks-rbd (crypt, 253:5)",
            "unmap /dev/rbd0 (kube/pvc-1)",
            "lossy: unmap /dev/rbd0 (kube/pvc-1) by force, what was not written back is lost, 2 mounts stay and fail",
        ]
    );
}

#[test]
fn what_is_suspended_is_resumed_before_anything_is_closed_on_it() {
    let tree = tree();
    tree.dm("dm-5", "253:5", "over", "", &["rbd0"]);
    tree.write("sys/devices/dm-5/dm/suspended", "1\n");
    tree.process(1, "init", 100, "1000030 1000021 253:5 / /m rw - ext4 /dev/mapper/over rw\n");
    let list = tree.remedies();
    assert_eq!(list[0], "for a person: resume dm-5 over (dm, 253:5, suspended)");
    assert_eq!(&list[1..3], ["unmount /m", "remove dm-5 over (dm, 253:5, suspended)"]);
}

#[test]
fn another_file_system_below_a_mount_is_for_a_person_and_its_own_mounts_are_not() {
    let tree = tree();
    let mountinfo = "1000030 1000021 252:0 / /m rw - ext4 /dev/rbd0 rw\n\
                     1000031 1000030 0:44 / /m/run rw - tmpfs tmpfs rw\n\
                     1000032 1000030 252:0 /sub /m/again rw - ext4 /dev/rbd0 rw\n";
    tree.process(1, "init", 100, mountinfo);
    assert_eq!(
        tree.remedies()[..5],
        [
            "unmount /m/again",
            "for a person: unmount /m/run, another file system under /m",
            "unmount /m",
            "unmap /dev/rbd0 (kube/pvc-1)",
            "lossy: unmount /m lazily, what is open there stays open",
        ]
    );
}

#[test]
fn swap_loop_and_md_devices_are_ended_by_their_own_words() {
    let tree = tree();
    tree.device("md7", "9:7");
    tree.write("sys/devices/md7/md/level", "raid1\n");
    tree.stack("md7", "rbd0");
    tree.loop_device("loop3", "7:3", "/dev/md7");
    tree.write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/loop3 partition 1 0 -2\n");
    tree.process(1, "init", 100, "");
    assert_eq!(
        tree.remedies()[..4],
        [
            "swapoff /dev/loop3",
            "detach loop3 (loop, 7:3) of /dev/md7",
            "stop md7 (md raid1, 9:7)",
            "unmap /dev/rbd0 (kube/pvc-1)"
        ]
    );
}

#[test]
fn an_export_is_given_back_by_hand_and_costs_nothing() {
    let tree = tree();
    let process = tree.process(1, "init", 100, "1000030 1000021 252:0 / /m rw - ext4 /dev/rbd0 rw\n");
    process.link("root", tree.path("elsewhere"));
    std::fs::create_dir_all(tree.path("elsewhere/m")).unwrap();
    tree.write("proc/net/rpc/nfsd.export/content", "/m\t*(rw)\n");
    let list = remedies(&tree.holders("252:0"), None);
    let export = list.iter().find(|remedy| remedy.by == By::Hand).unwrap();
    assert_eq!((export.risk, export.to_string().as_str()), (Risk::Safe, "by hand: unexport /m to *"));
}

#[test]
fn the_unmap_belongs_to_the_device_that_was_asked_about() {
    let tree = tree();
    tree.device("rbd0/rbd0p1", "252:1");
    tree.process(1, "init", 100, "1000030 1000021 252:1 / /m rw - ext4 /dev/rbd0p1 rw\n");
    let list = remedies(&tree.holders("252:1"), Some(&tree.mapping()));
    assert_eq!(list.iter().map(ToString::to_string).collect::<Vec<_>>(), ["unmount /m"]);
}

#[cfg(feature = "serde")]
#[test]
fn json_names_the_action_the_risk_and_who_carries_it_out() {
    let tree = tree();
    tree.process(1, "init", 100, "1000030 1000021 252:0 / /m rw - ext4 /dev/rbd0 rw\n");
    let json = serde_json::to_value(remedies(&tree.holders("252:0"), Some(&tree.mapping()))).unwrap();
    let facts = |n: usize| (json[n]["action"].clone(), json[n]["risk"].clone(), json[n]["by"].clone());
    assert_eq!(facts(0), ("unmount".into(), "safe".into(), "library".into()));
    assert_eq!((&json[0]["mount_point"], &json[0]["on"]), (&"/m".into(), &"252:0".into()));
    assert_eq!(facts(1), ("unmap".into(), "safe".into(), "library".into()));
    assert_eq!(facts(2), ("force_unmap".into(), "lossy".into(), "library".into()));
    assert_eq!(json[2]["leaves"][0]["kind"], "mount");
}
