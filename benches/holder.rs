//! How long it takes to find who holds a device, on a host with 5,000 processes in 200 mount namespaces, against what
//! one does by hand: `grep DEVICE /proc/*/task/*/mountinfo` for the mounts, `lsof` for open files.
//!
//! `benches/run holder`, as root. The processes are made here, in a PID namespace that ends with the program, and so
//! are the loop device and its file system, whose mount has leaked into the 200 namespaces and is gone outside. The
//! programs are run through `sh`, as by hand, and measured in turns with the library: what else the machine does hits
//! both. It hits the library harder, which takes all cores where `grep` takes one: the ratios wanted need free cores.

mod interleaved;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use interleaved::{Peer, compare};
use rbd::holder::HolderKind;
use rbd::{DeviceNumber, Holders};

const NAMESPACES: usize = 200;
const PROCESSES_EACH: usize = 25;
const ROUNDS: usize = 15;

fn main() {
    // `cargo test --benches` asks for one quick look.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let host = Host::new();
    let device = host.device();
    let mounts = || Holders::of(device).deadline(Duration::from_secs(60)).mounts_only().run().unwrap();
    let everything = || Holders::of(device).deadline(Duration::from_secs(60)).run().unwrap();
    let grep = format!("grep ' {device} ' /proc/*/task/*/mountinfo");
    // Without -n and -P it would look up the names of hosts and ports, which nobody waits for.
    let lsof = format!("lsof -nP | grep '{}'", host.disk.display());

    let found = everything();
    let held = found.iter().filter(|holder| matches!(holder.kind, HolderKind::Mount(_))).count();
    println!("{NAMESPACES} namespaces of {PROCESSES_EACH} processes each, {} lines by grep", lines(&grep));
    println!("the library finds {held} mounts, lsof {} lines", lines(&lsof));
    // The namespace in which the others were made has it too.
    assert_eq!(held, NAMESPACES + 1);

    let is_held = |holders: Holders| assert!(!holders.is_empty());
    let ratio = |subject: &str, program: &str, by_hand: &dyn Fn(), library: &dyn Fn() -> Holders| {
        let mut peers = [Peer::new(program, 1, by_hand), Peer::new("Holders", 1, || is_held(library()))];
        compare(subject, ROUNDS, &mut peers)[1]
    };
    let mounts = ratio("mounts of the device", "grep over mountinfo", &|| assert!(lines(&grep) > 0), &mounts);
    let everything = ratio("all that keeps it busy", "lsof", &|| assert_eq!(lines(&lsof), 0), &everything);
    println!("\n  wanted: mounts alone 4x, everything 2x");
    assert!(mounts >= 4.0 && everything >= 2.0);
}

/// Runs a shell's command and counts what it prints.
fn lines(command: &str) -> usize {
    let output = Command::new("sh").args(["-c", command]).stderr(Stdio::null()).output().unwrap();
    output.stdout.iter().filter(|byte| **byte == b'\n').count()
}

/// The processes, their namespaces and the device.
struct Host {
    directory: tempfile::TempDir,
    disk: PathBuf,
    processes: Child,
}

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (image, mount_point) = (directory.path().join("disk.img"), directory.path().join("mnt"));
        std::fs::create_dir(&mount_point).unwrap();
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let disk = sh(&format!("mkfs.ext4 -q {0} && losetup --find --show {0}", image.display()));
        // Process 1 of a PID namespace waits for the end of its input: all others end with it.
        let sleepers = "i=1; while [ $i -lt $2 ]; do sleep 1000000 & i=$((i+1)); done; wait";
        let script = format!(
            "mount {disk} {0}; n=0
             while [ $n -lt $1 ]; do unshare --mount sh -c '{sleepers}' sh $1 $2 & n=$((n+1)); done
             echo started; read line || true",
            mount_point.display()
        );
        let mut processes = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"])
            .args(["sh", "-euc", &script, "sh", &NAMESPACES.to_string(), &PROCESSES_EACH.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(processes.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let host = Self { directory, disk: disk.into(), processes };
        let count = || lines("grep -lx sleep /proc/[0-9]*/comm");
        let started = Instant::now();
        while count() < NAMESPACES * (PROCESSES_EACH - 1) {
            assert!(started.elapsed() < Duration::from_secs(300), "{} processes only", count());
        }
        host
    }

    fn device(&self) -> DeviceNumber {
        let name = self.disk.file_name().unwrap().to_str().unwrap();
        std::fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap().parse().unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.processes.stdin.take());
        let _ended = self.processes.wait();
        sh(&format!("losetup --detach {}", self.disk.display()));
        let _image = &self.directory;
    }
}

fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-euc", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
