//! The examples `map` and `unmap` with a deadline, against a cluster that does not answer.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::*;

/// The helper processes that there are.
fn helpers() -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap());
    let comm = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    processes.map(|entry| entry.file_name().into_string().unwrap()).filter(|pid| comm(pid) == "krbd-helper\n").collect()
}

fn map_words(image: &TestImage) -> Command {
    krbd(); // loads the module
    let mut command = Command::new(example("map"));
    command.args(["--conf", share().join("ceph.conf").to_str().unwrap(), &image.0]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a command that is to be back soon says: by a shell, whose pipes must be closed at its end too.
fn soon(command: &mut Command) -> (i32, String, String) {
    let start = Instant::now();
    let output: Output = command.spawn().unwrap().wait_with_output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    text(&output)
}

#[test]
fn a_map_with_a_deadline_returns_and_is_given_up() {
    let image = TestImage::new("late-helper");
    let (code, out, err) = soon(map_words(&image).args(["--deadline", "60"]));
    assert_eq!(code, 0, "{err}");
    unmap(&krbd().find(std::path::Path::new(out.trim())).unwrap()[0]);
    until(PATIENCE, || helpers().is_empty().then_some(()));

    let osd = StoppedOsd::new();
    let (code, _, err) = soon(map_words(&image).args(["--deadline", "2"]));
    // Although the OSD does not answer.
    until(PATIENCE, || helpers().is_empty().then_some(()));
    drop(osd);
    assert_eq!(code, 1);
    assert!(err.contains("timed out, and the kernel goes on") && err.contains("it is given up"), "{err}");
    assert_eq!(krbd().find(image.spec()).unwrap(), []);
    assert_eq!(image.watchers(), "Watchers: none\n");
}

/// The kernel looks for the monitors of one map at a time, for a minute each.
#[test]
fn maps_that_were_given_up_do_not_keep_others_waiting() {
    let image = TestImage::new("next-in-line");
    let nobody = ["--mon-host", "127.0.0.1:1", "--deadline", "1"];
    for signal in [None, Some("-INT"), Some("-KILL")] {
        let mut command = map_words(&image);
        let Some(signal) = signal else {
            assert_eq!(soon(command.args(nobody)).0, 1);
            continue;
        };
        let program = command.args(&nobody[..2]).args(["--deadline", "100"]).spawn().unwrap();
        until(PATIENCE, || (!helpers().is_empty()).then_some(()));
        run("kill", &[signal, &program.id().to_string()]);
        assert_eq!(program.wait_with_output().unwrap().status.code(), None);
    }
    let (code, out, err) = soon(&mut map_words(&image));
    assert_eq!(code, 0, "{err}");
    until(PATIENCE, || helpers().is_empty().then_some(()));
    // Of those there is nothing.
    let found = krbd().find(image.spec()).unwrap();
    assert_eq!(found.iter().map(|device| device.node.to_str().unwrap()).collect::<Vec<_>>(), [out.trim()]);
}

#[test]
fn a_helper_that_is_killed_is_an_error_and_leaves_nothing() {
    let image = TestImage::new("killed-helper");
    let osd = StoppedOsd::new();
    let program = map_words(&image).args(["--deadline", "140"]).spawn().unwrap();
    let helper = until(PATIENCE, || {
        let pid = helpers().pop()?;
        // It waits in the kernel, in the thread that writes. Nothing of the request is to be seen in it.
        let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        assert_eq!(arguments.split('\0').skip(1).collect::<Vec<_>>(), ["--rbd-krbd-helper", ""]);
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        (threads.count() > 1).then_some(pid)
    });
    run("kill", &["-KILL", &helper]);
    let (code, _, err) = text(&program.wait_with_output().unwrap());
    drop(osd);
    assert_eq!(code, 1);
    assert!(err.contains("the helper process ended without an answer"), "{err}");
    assert_eq!(krbd().find(image.spec()).unwrap(), []);
}

#[test]
fn an_unmap_with_a_deadline_returns_and_its_helper_goes_on() {
    let image = TestImage::new("stuck-helper");
    let device = image.map("").unwrap();
    // The lock is what the removal must give back.
    fs::OpenOptions::new().write(true).open(&device.node).unwrap().write_all_at(&[1; 512], 0).unwrap();
    run("udevadm", &["settle"]);
    let osd = StoppedOsd::new();
    let mut unmap = Command::new(example("unmap"));
    unmap.args([&image.0, "--deadline", "2"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (code, _, err) = soon(&mut unmap);
    let waiting = helpers().len();
    drop(osd);
    assert_eq!(code, 1);
    assert!(err.contains("timed out, and the kernel goes on") && err.contains("helper"), "{err}");
    assert_eq!(waiting, 1);
    until(PATIENCE, || helpers().is_empty().then_some(()));
    assert_eq!(krbd().find(image.spec()).unwrap(), []);
}
