//! Who holds a device, against the real proc and sysfs.

use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;

use rbd::holder::{FileUse, HolderKind, KernelUser, ProcessPart, StackedDriver, Unseen, UnseenReason};
use rbd::{Holder, Holders};

use super::machine::{Disk, Script, as_nobody, process, sh, unseen};

fn only(holders: &Holders) -> &Holder {
    let mut all = holders.iter();
    match (all.next(), all.next()) {
        (Some(holder), None) => holder,
        _ => panic!("{holders}"),
    }
}

#[test]
fn a_free_device_is_held_by_nothing() {
    let disk = Disk::ext4();
    let holders = disk.holders_when(Holders::is_empty);
    assert!(holders.is_empty() && unseen(&holders).is_empty(), "{holders}");
    // It is free in truth: nobody else has it, and the search left nothing open.
    sh(&format!("losetup --detach {0} && test ! -e /sys/block/$(basename {0})/loop", disk.device.display()));
}

#[test]
fn a_mount_in_another_namespace_is_found_with_its_process() {
    let disk = Disk::ext4();
    let mount_point = disk.mount_point("a b");
    let script = format!("mount {} '{}'; echo ready; read line", disk.device.display(), mount_point.display());
    let script = Script::unshared(&script);
    for holders in [disk.holders(), disk.search().mounts_only().run().unwrap()] {
        let HolderKind::Mount(mount) = &only(&holders).kind else { panic!("{holders}") };
        assert_eq!(mount.mount_point, mount_point);
        assert_eq!((mount.file_system.as_str(), mount.in_own_namespace), ("ext4", false));
        assert!(mount.propagation.is_private());
        assert_eq!((mount.process.pid, mount.process.comm.as_str()), (script.pid(), "sh"));
    }
    assert!(unseen(&disk.holders()).is_empty());
    drop(script);
    assert!(disk.holders_when(Holders::is_empty).is_empty());
}

#[test]
fn a_copy_of_a_namespace_keeps_the_mount_that_the_first_has_given_up() {
    let disk = Disk::ext4();
    let mount_point = disk.mount_point("m");
    let script = format!(
        "mount {0} {1}; unshare --mount sh -c 'echo ready; exec sleep 1000' | \
         {{ read line; umount -l {1}; echo $line; cat; }}",
        disk.device.display(),
        mount_point.display()
    );
    let script = Script::unshared_with_processes(&script);
    let holders = disk.holders_when(|holders| holders.iter().all(|holder| process(&holder.kind).comm == "sleep"));
    let HolderKind::Mount(mount) = &only(&holders).kind else { panic!("{holders}") };
    assert!(mount.mount_point == mount_point && !mount.in_own_namespace, "{holders}");
    drop(script);
}

#[test]
fn a_single_threads_namespace_is_found() {
    let disk = Disk::ext4();
    let mount_point = disk.mount_point("m");
    let (device, path) = (disk.device.clone(), mount_point.clone());
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        // SAFETY: unshare(2) takes flags and no memory; only this thread leaves the namespace.
        let left = unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS) };
        assert_eq!(left, 0, "{}", std::io::Error::last_os_error());
        // A child starts in the namespace of the thread that makes it.
        sh(&format!("mount --make-rprivate / && mount {} {}", device.display(), path.display()));
        let own = Holders::of_node(&device).unwrap().run().unwrap();
        ready.send(own).unwrap();
        let _until_dropped = released.recv();
    });
    let own = is_ready.recv().unwrap();
    let HolderKind::Mount(mount) = &only(&own).kind else { panic!("{own}") };
    assert!(mount.in_own_namespace, "{own}");

    let holders = disk.holders();
    let HolderKind::Mount(mount) = &only(&holders).kind else { panic!("{holders}") };
    assert_eq!(mount.process.pid, i32::try_from(std::process::id()).unwrap());
    assert!(mount.process.tid.is_some_and(|tid| tid != mount.process.pid));
    assert_eq!((&mount.mount_point, mount.in_own_namespace), (&mount_point, false));
    drop(release);
    thread.join().unwrap();
}

#[test]
fn a_mount_is_shown_as_a_chrooted_process_sees_it() {
    let disk = Disk::ext4();
    let root = disk.mount_point("root");
    let script = format!(
        "mount --rbind / {0}; mkdir -p {0}{0}/inside; mount {1} {0}/mnt; exec chroot {0} sh -c 'echo ready; read line'",
        root.display(),
        disk.device.display()
    );
    let script = Script::unshared(&script);
    let holders = disk.holders();
    let HolderKind::Mount(mount) = &only(&holders).kind else { panic!("{holders}") };
    assert_eq!((mount.mount_point.to_str(), mount.process.pid), (Some("/mnt"), script.pid()));
}

#[test]
fn a_mount_outside_every_root_is_a_live_file_system_that_somebody_unseen_keeps() {
    let disk = Disk::ext4();
    let (root, hidden) = (disk.mount_point("root"), disk.mount_point("hidden"));
    let script = format!(
        "mount --bind / {0}; mount {1} {2}; exec chroot {0} sh -c 'echo ready; read line'",
        root.display(),
        disk.device.display(),
        hidden.display()
    );
    let _script = Script::unshared(&script);
    let holders = disk.holders();
    let HolderKind::Kernel(KernelUser::FileSystem { file_system }) = &only(&holders).kind else { panic!("{holders}") };
    assert_eq!(file_system, "ext4");
    assert_eq!(unseen(&holders), [&Unseen::FileSystemUser { file_system: "ext4".into() }]);
}

#[test]
fn users_of_a_lazily_unmounted_file_system_are_found() {
    let disk = Disk::ext4();
    let mount_point = disk.mount_point("m");
    // A copy of a program, so that it is run and mapped from there.
    let script = format!(
        "mount {0} {1}; cp $(command -v sleep) {1}/sleeper; echo x > {1}/file; cd {1}; exec 5< file
         umount -l {1}; echo ready; exec ./sleeper 1000",
        disk.device.display(),
        mount_point.display()
    );
    let script = Script::unshared(&script);
    // The script says ready before it becomes the other program.
    let holders = disk.holders_when(|holders| holders.iter().all(|holder| process(&holder.kind).comm == "sleeper"));
    let HolderKind::Files(user) = &only(&holders).kind else { panic!("{holders}") };
    assert!(user.detached);
    assert_eq!(user.process.pid, script.pid());
    let uses: Vec<_> = user.files.iter().map(|file| file.usage).collect();
    let expected = [FileUse::WorkingDirectory, FileUse::Executable, FileUse::Mapping, FileUse::Descriptor(5)];
    assert_eq!(uses, expected, "{holders}");
    assert!(unseen(&holders).is_empty());
}

#[test]
fn users_of_a_mounted_file_system_come_before_the_mount() {
    let disk = Disk::ext4();
    let script =
        format!("mount {0} {1}; cd {1}; echo ready; read line", disk.device.display(), disk.mount_point("m").display());
    let script = Script::unshared(&script);
    let holders = disk.holders();
    let [files, mount] = &holders.iter().collect::<Vec<_>>()[..] else { panic!("{holders}") };
    let HolderKind::Files(user) = &files.kind else { panic!("{holders}") };
    assert!(!user.detached && user.process.pid == script.pid());
    assert!(matches!(mount.kind, HolderKind::Mount(_)));
}

#[test]
fn a_mount_whose_directory_is_removed_elsewhere_goes_and_who_was_in_it_stays() {
    let disk = Disk::ext4();
    let mount_point = disk.mount_point("m");
    let script = format!("mount {0} {1}; cd {1}; echo ready; read line", disk.device.display(), mount_point.display());
    let script = Script::unshared(&script);
    // Since Linux 3.18 this unmounts it lazily in every other namespace.
    std::fs::remove_dir(&mount_point).unwrap();
    let holders = disk.holders();
    let HolderKind::Files(user) = &only(&holders).kind else { panic!("{holders}") };
    assert!(user.detached && user.process.pid == script.pid());
}

#[test]
fn a_mount_of_a_removed_directory_is_found() {
    let disk = Disk::ext4();
    let script = format!(
        "mount {0} {1}; mkdir {1}/dir; mount --bind {1}/dir {2}; rmdir {1}/dir; umount {1}; echo ready; read line",
        disk.device.display(),
        disk.mount_point("m").display(),
        disk.mount_point("bound").display()
    );
    let _script = Script::unshared(&script);
    let holders = disk.holders();
    let HolderKind::Mount(mount) = &only(&holders).kind else { panic!("{holders}") };
    assert_eq!((mount.root.to_str(), mount.mount_point_deleted), (Some("/dir//deleted"), false));
    assert_eq!(mount.mount_point, disk.directory.path().join("bound"));
}

#[test]
fn an_open_descriptor_of_the_device_is_found() {
    let disk = Disk::empty();
    let script = format!("exec 7< {}; echo ready; read line", disk.device.display());
    let script = Script::run(Command::new("sh").args(["-euc", &script]));
    let holders = disk.holders();
    let HolderKind::Device(user) = &only(&holders).kind else { panic!("{holders}") };
    assert_eq!((user.process.pid, user.files[0].usage), (script.pid(), FileUse::Descriptor(7)));
    assert_eq!(user.files[0].path, disk.device);
}

#[test]
fn a_mapping_of_the_device_without_a_descriptor_is_found() {
    const LENGTH: usize = 4096;
    let disk = Disk::empty();
    let file = std::fs::File::open(&disk.device).unwrap();
    // SAFETY: mmap(2) at an address of its choice touches no memory of ours; the mapping is never read.
    let mapping =
        unsafe { libc::mmap(std::ptr::null_mut(), LENGTH, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(mapping, libc::MAP_FAILED);
    drop(file);
    let holders = disk.holders_when(|holders| holders.len() == 1);
    // SAFETY: it is the mapping made above, and nothing points into it.
    unsafe { libc::munmap(mapping, LENGTH) };
    let HolderKind::Device(user) = &only(&holders).kind else { panic!("{holders}") };
    let uses: Vec<_> = user.files.iter().map(|file| file.usage).collect();
    assert_eq!((user.process.pid, &uses[..]), (std::process::id().try_into().unwrap(), &[FileUse::Mapping][..]));
}

#[test]
fn a_threads_own_descriptors_are_found_and_shared_ones_are_listed_once() {
    let disk = Disk::empty();
    let shared = std::fs::File::open(&disk.device).unwrap();
    let device = disk.device.clone();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        // SAFETY: unshare(2) takes flags and no memory; only this thread gets a table of its own.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
        let own = std::fs::File::open(&device).unwrap();
        ready.send(()).unwrap();
        let _until_dropped = released.recv();
        drop(own);
    });
    is_ready.recv().unwrap();
    let holders = disk.holders();
    let mut users = holders.iter().map(|holder| process(&holder.kind)).map(|process| process.tid.is_some());
    assert_eq!((users.next(), users.next(), users.next()), (Some(false), Some(true), None), "{holders}");
    drop(release);
    thread.join().unwrap();
    drop(shared);
}

#[test]
fn a_partition_a_loop_device_over_it_and_swap_on_that_are_unrolled() {
    let disk = Disk::empty();
    let device = disk.device.display();
    sh(&format!("printf ',32M\\n,\\n' | sfdisk -q {device} && partx --update {device}"));
    let upper = sh(&format!("losetup --find --show {device}p2"));
    sh(&format!("mkswap -q {upper} && swapon {upper}"));
    let holders = disk.holders();
    sh(&format!("swapoff {upper} && losetup --detach {upper}"));
    let kinds: Vec<_> = holders.iter().map(|holder| &holder.kind).collect();
    let [HolderKind::Swap(swap), HolderKind::Stacked(upper_device), HolderKind::Stacked(partition)] = &kinds[..] else {
        panic!("{holders}")
    };
    assert_eq!((swap.path.to_str(), swap.is_file), (Some(upper.as_str()), false));
    assert!(matches!(upper_device.driver, StackedDriver::Loop { .. }));
    assert!(matches!(partition.driver, StackedDriver::Partition));
    assert!(disk.holders_when(Holders::is_empty).is_empty());
}

#[test]
fn a_loop_device_and_swap_in_files_on_the_file_system_come_before_the_mount() {
    let disk = Disk::ext4();
    let mount_point = disk.mount_point("m");
    // Made in another namespace than the one that asks: the path means something there only.
    let script = format!(
        "mount {0} {1}; truncate -s 8M {1}/inner; losetup --find --show {1}/inner >{2}
         dd if=/dev/zero of={1}/swap bs=1M count=8 status=none; chmod 600 {1}/swap; mkswap -q {1}/swap; swapon {1}/swap
         echo ready; read line || true; swapoff {1}/swap; losetup --detach $(cat {2}); umount {1}",
        disk.device.display(),
        mount_point.display(),
        disk.directory.path().join("inner-device").display()
    );
    let script = Script::unshared(&script);
    let holders = disk.holders();
    script.finish();
    let kinds: Vec<_> = holders.iter().map(|holder| &holder.kind).collect();
    let [HolderKind::Stacked(inner), HolderKind::Swap(swap), HolderKind::Mount(_)] = &kinds[..] else {
        panic!("{holders}")
    };
    let StackedDriver::Loop { backing_file } = &inner.driver else { panic!("{holders}") };
    assert_eq!(*backing_file, mount_point.join("inner"));
    assert!(swap.is_file && swap.path == mount_point.join("swap"));
}

#[test]
fn a_namespace_kept_by_a_file_is_unseen_with_the_file() {
    let disk = Disk::ext4();
    let (kept, mount_point) = (disk.mount_point("kept"), disk.mount_point("m"));
    let script = format!(
        "mount --bind {0} {0}; mount --make-private {0}; touch {0}/ns
         unshare --mount={0}/ns mount {1} {2}; echo ready; read line",
        kept.display(),
        disk.device.display(),
        mount_point.display()
    );
    let script = Script::unshared_on_one_processor(&script);
    let holders = disk.holders();
    // The device is held: its file system is live.
    assert!(matches!(only(&holders).kind, HolderKind::Kernel(KernelUser::FileSystem { .. })), "{holders}");
    let file = kept.join("ns");
    let is_kept = |unseen: &&Unseen| match unseen {
        Unseen::Namespace { file: by, process, .. } => *by == file && process.pid == script.pid(),
        _ => false,
    };
    assert!(unseen(&holders).iter().any(is_kept), "{holders}");
}

#[test]
fn a_namespace_kept_by_a_descriptor_is_unseen_with_the_descriptor() {
    let disk = Disk::ext4();
    let script = format!(
        "exec 3>&1; unshare --mount sh -euc 'mount {} {}; echo ready >&3; exec sleep 1000' & wait",
        disk.device.display(),
        disk.mount_point("m").display()
    );
    let mut inner = Script::unshared_with_processes(&script);
    let pid = process(&only(&disk.holders()).kind).pid;
    let file = std::fs::File::open(format!("/proc/{pid}/ns/mnt")).unwrap();
    inner.end();
    let holders = disk.holders_when(|holders| matches!(only(holders).kind, HolderKind::Kernel(_)));
    let own = i32::try_from(std::process::id()).unwrap();
    let is_kept = |unseen: &&Unseen| matches!(unseen, Unseen::Namespace { process, .. } if process.pid == own);
    assert!(unseen(&holders).iter().any(is_kept), "{holders}");
    drop(file);
}

#[test]
fn processes_that_come_and_go_do_not_keep_an_answer_from_being_complete() {
    let disk = Disk::ext4();
    let _busy = Script::run(Command::new("sh").args(["-c", "echo ready; while :; do /bin/true; done"]));
    let mut answers = (0..20).map(|_| disk.search().run().unwrap());
    assert!(answers.any(|holders| unseen(&holders).is_empty()));
}

#[test]
fn without_privilege_the_processes_of_others_are_unseen() {
    let disk = Disk::ext4();
    let script = format!("mount {} {}; echo ready; read line", disk.device.display(), disk.mount_point("m").display());
    let script = Script::unshared(&script);
    let search = disk.search();
    let holders = as_nobody(move || search.run().unwrap());
    for part in [ProcessPart::Mounts, ProcessPart::Files] {
        let denied = Unseen::Process { pid: script.pid(), part, reason: UnseenReason::PermissionDenied };
        assert!(holders.unseen().contains(&denied), "{holders}");
    }
    assert!(!holders.is_complete());
}

#[test]
fn hidepid_is_noticed_by_those_from_whom_it_hides() {
    let disk = Disk::ext4();
    let proc = disk.mount_point("proc");
    sh(&format!("chmod 755 {}; mount -t proc -o hidepid=2 proc {}", disk.directory.path().display(), proc.display()));
    let search = disk.search().root(&proc, "/sys");
    let privileged = search.clone().run().unwrap();
    let unprivileged = as_nobody(move || search.run().unwrap());
    // A thread of the search may not have ended yet.
    sh(&format!("umount --lazy {}", proc.display()));
    assert!(!privileged.unseen().contains(&Unseen::HiddenProcesses), "{privileged}");
    assert!(unprivileged.unseen().contains(&Unseen::HiddenProcesses), "{unprivileged}");
}

#[test]
fn inside_a_pid_namespace_the_rest_of_the_host_is_unseen() {
    let disk = Disk::ext4();
    let proc = disk.mount_point("proc");
    let script = format!("mount -t proc proc {}; echo ready; read line", proc.display());
    let script = Script::unshared_with_processes(&script);
    let seen_from_here = format!("/proc/{}/root{}", script.child_pid(), proc.display());
    let holders = disk.search().root(seen_from_here, "/sys").run().unwrap();
    assert!(holders.unseen().contains(&Unseen::OtherPidNamespaces), "{holders}");
}
