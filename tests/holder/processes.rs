//! Users of files. A link in a tree leads to a real file, so the device asked about is the one that the tree is on.

use std::path::Path;

use rbd::holder::{FileUse, HolderKind};

use super::tree::{Tree, device_of, mount_of, summary};

/// A tree, with the name in sysfs of the device that it is on.
fn tree() -> (Tree, String) {
    let tree = Tree::new();
    let device = device_of(&tree.path("")).to_string();
    tree.device("rbd0", &device);
    tree.process(1, "init", 100, "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    tree.write("elsewhere/file", "");
    (tree, device)
}

#[test]
fn every_use_of_a_file_is_seen_after_its_mount_is_gone() {
    let (tree, device) = tree();
    let process = tree.process(77, "bash", 100, "");
    process.link("cwd", tree.path("elsewhere"));
    process.link("root", tree.path("elsewhere"));
    process.link("exe", tree.path("elsewhere/file"));
    process.link("fd/3", tree.path("elsewhere/file"));
    process.link("fd/4", "/proc/version");
    process.link("fd/12", tree.path("elsewhere/file"));
    let (major, minor) = device.split_once(':').unwrap();
    let (major, minor): (u32, u32) = (major.parse().unwrap(), minor.parse().unwrap());
    let line = format!("r--p 00000000 {major:02x}:{minor:02x} 12 /lib/a\\012b\n");
    process.write("maps", &format!("1000-2000 {line}2000-3000 {line}3000-4000 rw-p 00000000 00:00 0 [heap]\n"));

    let holders = tree.holders(&device);
    let [holder] = &holders.iter().collect::<Vec<_>>()[..] else { panic!("{holders}") };
    let HolderKind::Files(user) = &holder.kind else { panic!("{holder}") };
    assert!(user.detached);
    assert_eq!((user.process.pid, user.process.comm.as_str()), (77, "bash"));
    let file = |usage, path: &str| (usage, Path::new(path).to_owned());
    let (directory, path) = (tree.path("elsewhere"), tree.path("elsewhere/file"));
    let (directory, path) = (directory.to_str().unwrap(), path.to_str().unwrap());
    assert_eq!(
        user.files.iter().map(|file| (file.usage, file.path.clone())).collect::<Vec<_>>(),
        [
            file(FileUse::WorkingDirectory, directory),
            file(FileUse::RootDirectory, directory),
            file(FileUse::Executable, path),
            file(FileUse::Mapping, "/lib/a\nb"),
            file(FileUse::Descriptor(3), path),
            file(FileUse::Descriptor(12), path),
        ]
    );
}

#[test]
fn who_uses_files_of_a_visible_mount_comes_before_it() {
    let (tree, device) = tree();
    let mount = mount_of(&tree.path(""));
    tree.process(50, "init", 200, &format!("{mount} 21 {device} / /mnt/a rw - ext4 /dev/rbd0 rw\n"));
    tree.process(77, "bash", 200, "").link("cwd", tree.path("elsewhere"));
    assert_eq!(
        summary(&tree.holders(&device)),
        [format!("files pid 77 on {device}: working directory"), format!("mount /mnt/a pid 50 on {device}")]
    );
}

#[test]
fn a_thread_with_descriptors_of_its_own_is_looked_at() {
    let (tree, device) = tree();
    let thread = tree.process(77, "server", 100, "").thread(78, 100, "");
    thread.link("fd/5", tree.path("elsewhere/file"));
    let holders = tree.holders(&device);
    let HolderKind::Files(user) = &holders.iter().next().unwrap().kind else { panic!("{holders}") };
    assert_eq!((user.process.pid, user.process.tid), (77, Some(78)));
}

#[test]
fn mounts_only_does_not_look_at_files_and_says_so() {
    let (tree, device) = tree();
    tree.process(77, "bash", 100, "").link("cwd", tree.path("elsewhere"));
    let holders = tree.search(&device).mounts_only().run().unwrap();
    assert!(holders.is_empty());
    assert_eq!(holders.unseen(), [rbd::holder::Unseen::FilesNotAskedFor]);
}
