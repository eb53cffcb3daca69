//! What people and programs read.

use super::tree::{Tree, summary};

fn nested() -> Tree {
    let tree = Tree::new();
    tree.device("rbd2", "252:32");
    tree.dm("dm-5", "253:5", "luks-rbd", "CRYPT-LUKS2-aa11-luks-rbd", &["rbd2"]);
    tree.dm("dm-6", "253:6", "vg-lv", "LVM-xyz", &["dm-5"]);
    tree.process(1, "init", 100, "1000030 1000021 253:6 / /mnt/a\\012b rw shared:7 - ext4 /dev/mapper/vg-lv rw\n");
    let path = "/rootfs/var/lib/kubelet/plugins/kubernetes.io/csi/rbd.csi.ceph.com/0b9e6f3c/globalmount";
    let mountinfo = format!(
        "1000060 1000059 252:32 /sub {path} ro - xfs /dev/rbd2 rw\n1000061 1000060 0:44 / {path}/t rw - tmpfs t rw\n"
    );
    let cadvisor = tree.process(3091, "cadvisor", 200, &mountinfo);
    let id = "3f4e1c0a9b8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f";
    cadvisor.write("cgroup", &format!("0::/kubepods/pod0b9e6f3c-5a39-4f7e-9a53-1f7f0a3c2b11/{id}\n"));
    for pid in 900..907 {
        std::fs::create_dir_all(tree.path(&format!("proc/{pid}"))).unwrap();
    }
    tree
}

#[test]
fn the_tree_reads_at_a_glance() {
    let expected = "\
rbd2 (252:32) is held by
├─ dm-5 luks-rbd (crypt, 253:5)
│  └─ dm-6 vg-lv (LVM, 253:6)
│     └─ mount /mnt/a\\012b
│           ext4, shared:7
│           in this mount namespace
└─ mount
      /rootfs/var/lib/kubelet/plugins/kubernetes.io/csi/rbd.csi.ceph.com/0b9e6f3c/globalmount
      xfs, private, read-only, of its directory /sub
      in mount namespace 200 of pid 3091 (cadvisor)
      pod 0b9e6f3c-5a39-4f7e-9a53-1f7f0a3c2b11, container 3f4e1c0a9b8d
      under it:
      /rootfs/var/lib/kubelet/plugins/kubernetes.io/csi/rbd.csi.ceph.com/0b9e6f3c/globalmount/t
not seen
├─ mounts of 7 processes (gone): 900, 901, 902, 903, 904 and 2 more
└─ files of 7 processes (gone): 900, 901, 902, 903, 904 and 2 more";
    let text = nested().holders("252:32").to_string();
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn nothing_is_said_differently_when_something_was_not_seen() {
    let tree = Tree::new();
    tree.device("rbd0", "252:0");
    tree.process(1, "init", 100, "");
    assert_eq!(tree.holders("252:0").to_string(), "rbd0 (252:0) is held by nothing on this host");
    let partly = tree.search("252:0").mounts_only().run().unwrap().to_string();
    assert_eq!(
        partly,
        "rbd0 (252:0) is held by nothing that could be seen\n\
         not seen\n└─ users of files and of the device: not asked for"
    );
}

#[test]
fn a_holder_alone_is_one_line() {
    let holders = nested().holders("252:32");
    let lines: Vec<String> = holders.iter().map(ToString::to_string).collect();
    assert_eq!(lines[0], "mount /mnt/a\\012b, ext4, shared:7, in this mount namespace (on 253:6)");
    assert_eq!(lines[2], "dm-5 luks-rbd (crypt, 253:5) (on 252:32)");
    assert_eq!(summary(&holders).len(), lines.len());
}

#[cfg(feature = "serde")]
#[test]
fn json_has_every_field_under_its_name() {
    let json = serde_json::to_value(nested().holders("252:32")).unwrap();
    assert_eq!(json["device"], "252:32");
    assert_eq!(json["name"], "rbd2");
    let mount = &json["holders"][3];
    assert_eq!((&mount["kind"], &mount["on"]), (&"mount".into(), &"252:32".into()));
    assert_eq!(mount["process"]["comm"], "cadvisor");
    assert_eq!(mount["propagation"]["shared"], serde_json::Value::Null);
    let volume = &json["holders"][1];
    assert_eq!((&volume["kind"], &volume["name"]), (&"stacked".into(), &"dm-6".into()));
    assert_eq!((&volume["driver"]["type"], &volume["driver"]["target"]), (&"dm".into(), &"lvm".into()));
    assert_eq!(json["unseen"][0]["what"], "process");
    assert_eq!(json["unseen"][0]["reason"], "gone");
}
