//! Helper processes, on a host that the test writes: a directory tree whose bus takes whatever is written.
//!
//! A helper is the program itself, run again, so this one has a `main` of its own.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rbd::krbd::{Credentials, Krbd, MapRequest, NodePolicy, Stage, UnmapOptions, helper_main};

fn main() {
    helper_main();
    if let Some(root) = std::env::args_os().nth(1).filter(|root| Path::new(root).join("sys").is_dir()) {
        return replace_and_unmap(Path::new(&root));
    }
    // As in many a program that is to end when its reader does. What std makes of it would hide a fault.
    // SAFETY: signal(2) with a disposition that is no function.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let tests: [(&str, fn()); 15] = [
        ("a_helper_has_nothing_of_its_program_but_the_socket", a_helper_has_nothing_of_its_program_but_the_socket),
        ("nor_has_it_where_there_is_no_close_range", nor_has_it_where_there_is_no_close_range),
        ("helpers_end_with_the_last_clone_and_leave_no_zombie", helpers_end_with_the_last_clone_and_leave_no_zombie),
        ("an_idle_helper_that_is_killed_is_followed_by_another", an_idle_helper_that_is_killed_is_followed_by_another),
        (
            "a_helper_that_is_killed_at_work_is_an_error_unless_it_was_done",
            a_helper_that_is_killed_at_work_is_an_error_unless_it_was_done,
        ),
        ("a_map_of_a_program_that_ends_is_given_up", a_map_of_a_program_that_ends_is_given_up),
        ("a_helper_maps_and_is_there_for_the_next", a_helper_maps_and_is_there_for_the_next),
        ("of_many_helpers_a_few_stay", of_many_helpers_a_few_stay),
        ("paths_from_the_working_directory_are_the_programs", paths_from_the_working_directory_are_the_programs),
        ("a_forked_process_has_helpers_of_its_own", a_forked_process_has_helpers_of_its_own),
        ("a_program_with_capabilities_of_its_file_helps_nobody", a_program_with_capabilities_of_its_file_helps_nobody),
        (
            "a_program_that_was_replaced_while_it_runs_has_helpers",
            a_program_that_was_replaced_while_it_runs_has_helpers,
        ),
        ("without_descriptors_nothing_is_done_and_none_is_lost", without_descriptors_nothing_is_done_and_none_is_lost),
        ("without_a_thread_nothing_is_done", without_a_thread_nothing_is_done),
        ("a_program_that_ignores_its_children_loads_the_module", a_program_that_ignores_its_children_loads_the_module),
    ];
    for (name, test) in tests {
        // A test that fails ends the program.
        test();
        println!("test {name} ... ok");
    }
    println!("\ntest result: ok. {} passed; 0 failed; 0 ignored", tests.len());
}

/// Directories like `/sys` and `/dev` with one mapping, 3.
struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        host.add(3);
        fs::write(host.bus().join("remove"), "").unwrap();
        host
    }

    /// A mapping as an old kernel shows it.
    fn add(&self, id: u32) {
        let device = self.bus().join(format!("devices/{id}"));
        fs::create_dir_all(&device).unwrap();
        for (attribute, value) in
            [("pool", "kube"), ("name", "pvc-1"), ("current_snap", "-"), ("major", "254"), ("minor", "48")]
        {
            fs::write(device.join(attribute), value).unwrap();
        }
    }

    fn bus(&self) -> PathBuf {
        self.0.path().join("sys/bus/rbd")
    }

    fn krbd(&self) -> Krbd {
        krbd_of(self.0.path())
    }

    /// A file of the bus to which nothing can be written until somebody reads.
    fn fifo(&self, name: &str) -> PathBuf {
        let fifo = self.bus().join(name);
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        fifo
    }

    /// What was written to the bus since this was asked last.
    fn written(&self) -> String {
        let file = self.bus().join("remove");
        let written = fs::read_to_string(&file).unwrap();
        fs::write(file, "").unwrap();
        written
    }
}

fn krbd_of(root: &Path) -> Krbd {
    Krbd::with_roots(root.join("sys"), root.join("dev"), "/proc").detached()
}

fn unmap(krbd: &Krbd) {
    krbd.unmap(3, &UnmapOptions::new()).unwrap();
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit(')').next()?.split_ascii_whitespace().map(str::to_owned).collect())
}

/// The children of this process, zombies included.
fn helpers() -> Vec<u32> {
    let own = std::process::id().to_string();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|&pid| stat(pid).is_some_and(|fields| fields[1] == own)).collect()
}

fn helper() -> u32 {
    let helpers = helpers();
    assert_eq!(helpers.len(), 1, "{helpers:?}");
    helpers[0]
}

fn kill(pid: u32) {
    // SAFETY: kill(2) takes two numbers; it is a child that nobody has waited for.
    assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGKILL) }, 0);
}

fn a_helper_has_nothing_of_its_program_but_the_socket() {
    let host = Host::new();
    let file = fs::File::open(host.bus().join("remove")).unwrap();
    // SAFETY: fcntl(2) with a number, on a descriptor that is open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
    let krbd = host.krbd();
    unmap(&krbd);
    assert_eq!(host.written(), "3");
    let helper = helper();
    assert_eq!(fs::read_to_string(format!("/proc/{helper}/comm")).unwrap(), "krbd-helper\n");
    // Session and controlling terminal.
    let stat = stat(helper).unwrap();
    assert_eq!((&stat[3], &stat[4]), (&helper.to_string(), &"0".to_owned()));
    assert_eq!(fs::read_link(format!("/proc/{helper}/cwd")).unwrap(), Path::new("/"));
    let mut files: Vec<_> = fs::read_dir(format!("/proc/{helper}/fd"))
        .unwrap()
        .map(|entry| fs::read_link(entry.unwrap().path()).unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    files.dedup_by_key(|file| file.split(':').next().unwrap_or_default().to_owned());
    assert!(matches!(&files[..], [null, socket] if null == "/dev/null" && socket.starts_with("socket:")), "{files:?}");
}

fn helpers_end_with_the_last_clone_and_leave_no_zombie() {
    let host = Host::new();
    let krbd = host.krbd();
    let clone = krbd.clone();
    unmap(&krbd);
    drop(krbd);
    let first = helper();
    unmap(&clone);
    assert_eq!(helper(), first);
    drop(clone);
    assert!(helpers().is_empty());
}

fn an_idle_helper_that_is_killed_is_followed_by_another() {
    let host = Host::new();
    let krbd = host.krbd();
    unmap(&krbd);
    for _ in 0..50 {
        let killed = helper();
        // It may be gone, or about to go, when it is asked.
        kill(killed);
        host.written();
        unmap(&krbd);
        assert_eq!(host.written(), "3");
        assert_ne!(helper(), killed);
    }
}

fn a_helper_that_is_killed_at_work_is_an_error_unless_it_was_done() {
    let host = Host::new();
    let fifo = host.fifo("remove_single_major");
    let krbd = host.krbd();
    let unmap_and_kill = |meanwhile: &dyn Fn()| {
        std::thread::scope(|scope| {
            let unmap = scope.spawn(|| krbd.unmap(3, &UnmapOptions::new()).map(drop));
            let is_at_work = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).unwrap().count() > 1;
            let helper = until(|| helpers().pop().filter(is_at_work));
            meanwhile();
            kill(helper);
            unmap.join().unwrap()
        })
    };
    let error = unmap_and_kill(&|| ()).unwrap_err();
    assert!(format!("{error:#}").contains("the helper process ended without an answer"), "{error:#}");
    // What is gone then was unmapped.
    unmap_and_kill(&|| fs::remove_dir_all(host.bus().join("devices/3")).unwrap()).unwrap();
    host.add(3);
    fs::remove_file(fifo).unwrap();
    unmap(&krbd);
    assert_eq!(host.written(), "3");
}

/// The kernel lets only the end of the process end its wait.
fn a_map_of_a_program_that_ends_is_given_up() {
    let host = Host::new();
    let fifo = host.fifo("add");
    // A write that hangs: it is full, and nobody reads.
    let mut bus = fs::File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&fifo).unwrap();
    while bus.write(&[b'\n'; 4096]).is_ok() {}
    // Helpers of a process that has ended are nobody's children: they are counted by what they have open.
    let has_open = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        files.filter_map(Result::ok).any(|file| fs::read_link(file.path()).is_ok_and(|path| path == fifo))
    };
    let own = std::process::id();
    let writers = || {
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        pids.filter(|&pid| pid != own && has_open(&pid)).collect::<Vec<_>>()
    };
    in_child(|| {
        let krbd = host.krbd();
        let credentials = Credentials::without_key("admin");
        let request = MapRequest::new("192.0.2.1".parse().unwrap(), credentials, "kube/pvc-1".parse().unwrap());
        krbd.map(&request.deadline(Duration::from_secs(1))).unwrap_err();
        until(|| writers().iter().any(|pid| *pid != std::process::id()).then_some(()));
        // As at the end of a program that waits for nothing.
        std::mem::forget(krbd);
    });
    until(|| writers().is_empty().then_some(()));
}

fn a_helper_maps_and_is_there_for_the_next() {
    let host = Host::new();
    let fifo = host.fifo("add");
    // As long as it is full, writing to it takes.
    let mut bus = fs::File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&fifo).unwrap();
    while bus.write(&[b'\n'; 4096]).is_ok() {}
    let krbd = host.krbd();
    let credentials = Credentials::without_key("admin");
    let request = MapRequest::new("192.0.2.1".parse().unwrap(), credentials, "kube/pvc-1".parse().unwrap());
    let (device, written) = std::thread::scope(|scope| {
        let map = scope.spawn(|| krbd.map(&request.node(NodePolicy::Ignore)).unwrap());
        let is_open = |pid: &u32| {
            let mut files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
            files.any(|file| fs::read_link(file.unwrap().path()).is_ok_and(|path| path == fifo))
        };
        let _helper = until(|| helpers().pop().filter(is_open));
        host.add(4);
        let mut written = String::new();
        let mut part = [0; 4096];
        while !written.contains("kube") {
            if let Ok(length) = bus.read(&mut part) {
                written += str::from_utf8(&part[..length]).unwrap();
            }
        }
        (map.join().unwrap(), written)
    });
    assert_eq!(device.id, 4);
    assert!(written.trim_start().starts_with("192.0.2.1:6789 name=admin kube pvc-1 - origin="), "{written}");
    let first = helper();
    unmap(&krbd);
    assert_eq!((host.written().as_str(), helper()), ("3", first));
}

fn of_many_helpers_a_few_stay() {
    let host = Host::new();
    let fifo = host.fifo("remove_single_major");
    let krbd = host.krbd();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| unmap(&krbd));
        }
        until(|| (helpers().len() == 8).then_some(()));
        // Now they can go on.
        let bus = fs::File::options().read(true).write(true).open(&fifo).unwrap();
        until(|| (helpers().len() == 4).then_some(()));
        drop(bus);
    });
    drop(krbd);
    assert!(helpers().is_empty());
}

fn paths_from_the_working_directory_are_the_programs() {
    let host = Host::new();
    std::env::set_current_dir(host.0.path()).unwrap();
    unmap(&Krbd::with_roots("sys", "dev", "/proc").detached());
    assert_eq!(host.written(), "3");
    std::env::set_current_dir("/").unwrap();
}

/// Runs `test` in a process that is forked from this one.
fn in_child(test: impl FnOnce()) {
    // SAFETY: this program has one thread now, so that its child may do anything.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).is_ok();
        // SAFETY: the end of the child.
        unsafe { libc::_exit(i32::from(!passed)) };
    }
    let mut status = -1;
    // SAFETY: a child of ours and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}

fn a_forked_process_has_helpers_of_its_own() {
    let host = Host::new();
    let mut krbd = Some(host.krbd());
    unmap(krbd.as_ref().unwrap());
    let ours = helper();
    in_child(|| {
        unmap(krbd.as_ref().unwrap());
        assert_ne!(helper(), ours);
        krbd.take();
        assert!(helpers().is_empty());
    });
    host.written();
    unmap(krbd.as_ref().unwrap());
    assert_eq!((host.written().as_str(), helper()), ("3", ours));
}

fn nor_has_it_where_there_is_no_close_range() {
    in_child(|| {
        refuse(libc::SYS_close_range, libc::ENOSYS);
        a_helper_has_nothing_of_its_program_but_the_socket();
    });
}

/// This errno of this system call, here and in what is started from now on.
fn refuse(call: libc::c_long, errno: i32) {
    let filter = |code, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filters = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // seccomp_data.nr
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filters.len() as u16, filter: filters.as_mut_ptr() };
    // SAFETY: prctl(2) reads the program, whose filters live until it returns.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// Whoever runs such a program could otherwise have it write anywhere. Only root can make one to test it.
fn a_program_with_capabilities_of_its_file_helps_nobody() {
    let directory = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
    let program = directory.path().join("program");
    fs::copy("/proc/self/exe", &program).unwrap();
    // VFS_CAP_REVISION_2, effective; CAP_DAC_OVERRIDE permitted (linux/capability.h).
    let capabilities: Vec<u8> = [0x0200_0001_u32, 1 << 1, 0, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect();
    let set = || rustix::fs::setxattr(&program, "security.capability", &capabilities, rustix::fs::XattrFlags::empty());
    for (has_capabilities, serves) in [(false, true), (true, false)] {
        if has_capabilities && (rustix::thread::no_new_privs().unwrap() || set().is_err()) {
            println!("(file capabilities cannot be set here)");
            return;
        }
        in_child(|| {
            // Opened while this is root: the way to it need not be everybody's.
            let program = fs::File::open(&program).unwrap();
            if has_capabilities {
                // SAFETY: these take numbers.
                unsafe {
                    assert_eq!(libc::setresgid(65534, 65534, 65534), 0);
                    assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
                }
            }
            let (mut stream, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
            let mut process =
                command.arg("--rbd-krbd-helper").stdin(std::os::fd::OwnedFd::from(theirs)).spawn().unwrap();
            drop(command);
            // The directories.
            let greeted = stream.write_all(&[0; 3 * 4]).and_then(|()| stream.read_exact(&mut [0]));
            drop(stream);
            process.wait().unwrap();
            assert_eq!(greeted.is_ok(), serves, "{greeted:?}");
        });
    }
}

/// As by an upgrade: the helper is of the same version as the program for all that.
fn a_program_that_was_replaced_while_it_runs_has_helpers() {
    let host = Host::new();
    let program = host.0.path().join("program");
    fs::copy("/proc/self/exe", &program).unwrap();
    assert!(Command::new(&program).arg(host.0.path()).status().unwrap().success());
    assert_eq!((host.written().as_str(), fs::read_to_string(program).unwrap().as_str()), ("3", "another version"));
}

/// What such a program does.
fn replace_and_unmap(root: &Path) {
    fs::write(root.join("new"), "another version").unwrap();
    fs::rename(root.join("new"), root.join("program")).unwrap();
    unmap(&krbd_of(root));
}

fn without_descriptors_nothing_is_done_and_none_is_lost() {
    let host = Host::new();
    in_child(|| {
        // SAFETY: setrlimit(2) reads the struct.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: 64, rlim_max: 64 }) }, 0);
        let fill = || std::iter::from_fn(|| fs::File::open("/").ok()).collect::<Vec<_>>();
        let most = fill().len();
        // Enough to read sysfs with, and for some of what a helper needs.
        let results = (3..10).map(|free| {
            let mut files = fill();
            files.truncate(most - free);
            let result = host.krbd().unmap(3, &UnmapOptions::new());
            drop(files);
            assert_eq!(fill().len(), most);
            if let Err(error) = &result {
                assert_eq!((error.errno(), error.stage()), (Some(libc::EMFILE), Some(Stage::Preflight)), "{error}");
                assert_eq!(host.written(), "");
            }
            result.is_ok()
        });
        let results: Vec<_> = results.collect();
        assert!(!results[0] && results[6], "{results:?}");
    });
}

fn without_a_thread_nothing_is_done() {
    let host = Host::new();
    in_child(|| {
        refuse(libc::SYS_clone3, libc::EAGAIN);
        let options = UnmapOptions::new().deadline(Duration::from_secs(60));
        let error = host.krbd().unmap(3, &options).unwrap_err();
        assert_eq!((error.errno(), error.stage()), (Some(libc::EAGAIN), Some(Stage::Preflight)));
        assert!(error.to_string().contains("too many threads"), "{error}");
        assert_eq!(host.written(), "");
    });
}

fn a_program_that_ignores_its_children_loads_the_module() {
    let host = Host::new();
    let (bus, aside) = (host.bus(), host.0.path().join("aside"));
    fs::rename(&bus, &aside).unwrap();
    let modprobe = host.0.path().join("modprobe");
    let script = format!("#!/bin/sh\nPATH=/usr/bin:/bin\nexec mv '{}' '{}'\n", aside.display(), bus.display());
    fs::write(&modprobe, script).unwrap();
    fs::set_permissions(&modprobe, fs::Permissions::from_mode(0o755)).unwrap();
    in_child(|| {
        // SAFETY: this process has one thread; signal(2) takes a disposition that is no function.
        unsafe {
            std::env::set_var("PATH", host.0.path());
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        }
        host.krbd().load_module().unwrap();
    });
}
