//! What cannot be seen, and time.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rbd::holder::{ProcessPart, Unseen, UnseenReason};
use rbd::{Details, ErrorKind, Holders};

use super::tree::{Tree, mount_of, summary};

const MOUNTED: &str = "1000030 1000021 252:16 / /mnt/a rw - ext4 /dev/rbd1 rw\n";

fn tree() -> Tree {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    tree.process(1, "init", 100, MOUNTED);
    tree
}

/// A file that is never written to: opening it hangs, as reading a process that is stuck in the kernel does.
fn hangs(path: &std::path::Path) {
    let _absent = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_process_that_exits_during_the_search_is_unseen_and_nothing_else_is_lost() {
    let tree = tree();
    fs::create_dir_all(tree.path("proc/55")).unwrap();
    let holders = tree.holders("252:16");
    assert_eq!(summary(&holders), ["mount /mnt/a pid 1 on 252:16"]);
    let gone = |part| Unseen::Process { pid: 55, part, reason: UnseenReason::Gone };
    assert_eq!(holders.unseen(), [gone(ProcessPart::Mounts), gone(ProcessPart::Files)]);
}

#[test]
fn a_zombie_holds_nothing_and_hides_nothing() {
    let tree = tree();
    tree.write("proc/55/stat", "55 (a) b) Z 1 55 55 0 -1");
    fs::create_dir_all(tree.path("proc/55/task/55")).unwrap();
    assert!(tree.holders("252:16").is_complete());
}

#[test]
fn when_the_first_process_of_a_namespace_is_gone_another_one_is_read() {
    let tree = tree();
    let first = tree.process(40, "gone", 200, "");
    fs::remove_file(first.0.join("mountinfo")).unwrap();
    tree.process(41, "stays", 200, "1000060 1000059 252:16 / /b rw - ext4 /dev/rbd1 rw\n");
    assert_eq!(summary(&tree.holders("252:16")), ["mount /mnt/a pid 1 on 252:16", "mount /b pid 41 on 252:16"]);
}

#[test]
fn a_process_that_hangs_costs_the_deadline_and_its_own_part_only() {
    let tree = tree();
    let stuck = tree.process(40, "stuck", 100, MOUNTED);
    hangs(&stuck.0.join("maps"));
    let start = Instant::now();
    let holders = tree.search("252:16").deadline(Duration::from_secs(2)).run().unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(summary(&holders), ["mount /mnt/a pid 1 on 252:16"]);
    let unseen = Unseen::Process { pid: 40, part: ProcessPart::Files, reason: UnseenReason::TimedOut };
    assert_eq!(holders.unseen(), [unseen]);
}

#[test]
fn mounts_that_hang_leave_time_for_the_files() {
    let tree = tree();
    let stuck = tree.process(40, "stuck", 200, "");
    hangs(&stuck.0.join("mountinfo"));
    let holders = tree.search("252:16").deadline(Duration::from_secs(2)).run().unwrap();
    assert_eq!(summary(&holders), ["mount /mnt/a pid 1 on 252:16"]);
    let unseen = Unseen::Process { pid: 40, part: ProcessPart::Mounts, reason: UnseenReason::TimedOut };
    assert_eq!(holders.unseen(), [unseen]);
}

#[test]
fn a_device_whose_sysfs_hangs_does_not_keep_the_caller() {
    let tree = tree();
    tree.dm("dm-0", "253:0", "a", "LVM-x", &["rbd1"]);
    hangs(&tree.path("sys/devices/dm-0/dm/suspended"));
    let error = tree.search("252:16").deadline(Duration::from_millis(500)).run().unwrap_err();
    assert_eq!((error.kind(), error.details()), (ErrorKind::TimedOut, &Details::StillRunning));
}

#[test]
fn a_deadline_that_is_over_is_never_a_complete_answer() {
    match tree().search("252:16").deadline(Duration::ZERO).run() {
        Ok(holders) => assert!(!holders.is_complete()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
    }
}

#[test]
fn hidden_processes_are_unseen_for_those_from_whom_they_are_hidden() {
    for (option, hides) in [("hidepid=2", true), ("hidepid=invisible", true), ("hidepid=off", false), ("x", false)] {
        for (capabilities, is_privileged) in [("0000000000000000", false), ("000001ffffffffff", true)] {
            let tree = Tree::new();
            tree.device("rbd1", "252:16");
            // The mount that proc was read from tells, wherever it is.
            let mount = mount_of(&tree.path("proc"));
            let mountinfo = format!("{mount} 1000021 0:5 / /host/proc rw - proc proc rw,{option}\n");
            let process = tree.process(1, "init", 100, &mountinfo);
            process.write("status", &format!("Name:\tinit\nCapEff:\t{capabilities}\n"));
            let unseen = tree.holders("252:16").unseen().contains(&Unseen::HiddenProcesses);
            assert_eq!(unseen, hides && !is_privileged, "{option} {capabilities}");
        }
    }
}

#[test]
fn a_proc_of_one_container_does_not_claim_to_show_the_host() {
    let tree = Tree::new();
    tree.device("rbd1", "252:16");
    tree.process(1, "init", 100, MOUNTED).link("ns/pid", "pid:[4026532210]");
    let holders = tree.holders("252:16");
    assert_eq!(holders.unseen(), [Unseen::OtherPidNamespaces]);
}

#[test]
fn rubbish_in_mountinfo_is_unseen_and_the_rest_is_read() {
    let tree = tree();
    tree.process(40, "odd", 200, &format!("what is this\n{MOUNTED}"));
    let holders = tree.holders("252:16");
    let reason = UnseenReason::NotUnderstood;
    assert_eq!(holders.unseen(), [Unseen::Process { pid: 40, part: ProcessPart::Mounts, reason }]);
}

#[test]
fn ten_thousand_processes_are_searched() {
    let tree = tree();
    for pid in 10_000..20_000 {
        let directory = tree.path(&format!("proc/{pid}"));
        fs::create_dir_all(directory.join("ns")).unwrap();
        let namespace = 1000 + pid % 200;
        std::os::unix::fs::symlink(format!("mnt:[{namespace}]"), directory.join("ns/mnt")).unwrap();
        std::os::unix::fs::symlink("/sys", directory.join("root")).unwrap();
        fs::create_dir(directory.join("task")).unwrap();
        if pid < 10_200 {
            fs::write(directory.join("mountinfo"), format!("10{pid} 21 252:16 / /m rw - ext4 /dev/rbd1 rw\n")).unwrap();
        }
    }
    let holders = tree.search("252:16").deadline(Duration::from_secs(60)).mounts_only().run().unwrap();
    assert_eq!(holders.len(), 201);
}

#[test]
fn what_is_no_block_device_is_refused() {
    let error = Holders::of_node("/dev/null").unwrap_err();
    assert_eq!((error.kind(), error.object()), (ErrorKind::NotBlockDevice, Some("/dev/null")));
    assert_eq!(Holders::of_node("/dev/no-such-device").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn without_proc_there_is_an_error_and_not_an_empty_answer() {
    let error = Holders::of("252:16".parse().unwrap()).root("/nonexistent", "/sys").run().unwrap_err();
    assert_eq!((error.kind(), error.object()), (ErrorKind::NotFound, Some("252:16")));
}
