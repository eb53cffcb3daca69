//! Which cluster, which user, which options, and what happens to all else.

use super::super::support::{TestCluster, unique};
use super::*;

#[test]
fn options_for_the_cluster() {
    let pool = prepare(&["create --size 8M %/i"]);
    let files = [TestCluster::shared().conf(), TestCluster::shared().keyring()].map(|file| file.display().to_string());
    for line in cases(include_str!("options.cases")) {
        RBD.agree(&words(&pool, &line.replace("CONF", &files[0]).replace("KEYRING", &files[1])));
    }
}

#[test]
fn the_environment_of_ceph() {
    let pool = prepare(&["create --size 8M %/i"]);
    let environments: [&[_]; 8] = [
        &[("CEPH_ARGS", "--err_to_stderr=false --log_to_stderr=false --rbd_default_pool none")],
        &[("CEPH_ARGS", "--err_to_stderr=false --log_to_stderr=false --id nobody")],
        &[("CEPH_ARGS", "--err_to_stderr=false --log_to_stderr=false --user admin --format json")],
        &[("CEPH_ARGS", "--err_to_stderr=false --log_to_stderr=false -p none")],
        &[("CEPH_ARGS", "--err_to_stderr=false --log_to_stderr=false --conf /none")],
        &[("CEPH_ARGS", "--err_to_stderr=false --log_to_stderr=false -- extra")],
        &[("CEPH_KEYRING", "/none")],
        &[("TZ", "Asia/Kathmandu")],
    ];
    for environment in environments {
        for line in ["info %/i", "info i", "--id admin info --rbd_default_pool % -- i"] {
            Pair { environment, ..RBD }.agree(&words(&pool, line));
        }
    }
    Pair { environment: &[("CEPH_ARGS", "-p rbd")], ..RADOS }.agree(&["listwatchers", "rbd_directory"]);
}

#[test]
fn a_key_from_the_standard_input() {
    let pool = prepare(&["create --size 8M %/i"]);
    let key = TestCluster::shared().ceph(["auth", "get-key", "client.admin"]);
    let file = std::env::temp_dir().join(unique("key"));
    let said_with = |program: &Path, input: &str, line: &str| {
        std::fs::write(&file, input).unwrap();
        let mut command = TestCluster::shared().command(program.to_str().unwrap(), words(&pool, line));
        said(command.env("CEPH_ARGS", QUIET).stdin(std::fs::File::open(&file).unwrap()))
    };
    let lines = [
        "info -K - %/i -k /none",
        "-K=- -k /none status %/i",
        "info %/i -k /none --keyfile -",
        "info --keyfile=- -k /none %/i",
        "info %/i -K -",
        "info -K- %/i",
    ];
    for input in [&key, &format!("{key}\n"), "garbage", ""] {
        for line in lines {
            let original = said_with(Path::new("rbd"), input, line);
            assert_eq!(said_with(&example("rbd"), input, line), original, "{line} with {} bytes", input.len());
            assert!(input != key || original.0 == 0 || line.contains("-K-"), "{line}: {original:?}");
        }
        let line = "-p % -k /none -K - listwatchers rbd_directory";
        let original = said_with(Path::new("rados"), input, line);
        assert_eq!(said_with(&example("rados_listwatchers"), input, line), original);
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn without_a_configuration_file_both_go_on_with_the_defaults() {
    let pair = Pair { environment: &[("CEPH_CONF", "/none;/nowhere")], ..RBD };
    let (original, ours) = pair.both(&["info".into(), "i".into()]);
    // What Ceph logs of the missing file comes before it has read that it should not.
    let own = |(status, text, message): Said| {
        let lines = message.lines().filter(|line| !line.is_empty() && !line.starts_with("20"));
        (status, text, lines.map(String::from).collect::<Vec<_>>())
    };
    let (original, ours) = (own(original), own(ours));
    assert_eq!(ours, original);
    assert_eq!(ours.2[0], "did not load config file, using default settings.");
}

#[test]
fn the_configuration_file_is_found_by_the_cluster_and_the_home() {
    let pool = prepare(&["create --size 8M %/i"]);
    let home = std::env::temp_dir().join(unique("home"));
    std::fs::create_dir_all(home.join(".ceph")).unwrap();
    for name in ["ceph.conf", "other.conf"] {
        std::fs::copy(TestCluster::shared().conf(), home.join(".ceph").join(name)).unwrap();
    }
    for line in [
        "info %/i",
        "info %/i --cluster other",
        "info %/i -c HOME/.ceph/$cluster.conf --cluster other",
        "info %/i -c /none,$home/.ceph/ceph.conf",
        "info %/i -c HOME/.ceph/$name.conf",
        "info %/i -c ~/.ceph/ceph.conf",
    ] {
        let words = words(&pool, &line.replace("HOME", home.to_str().unwrap()));
        let in_home = |program: &Path| {
            let mut command = TestCluster::shared().command(program.to_str().unwrap(), &words);
            said(command.env("CEPH_ARGS", QUIET).env("HOME", &home).env_remove("CEPH_CONF"))
        };
        assert_eq!(in_home(&example("rbd")), in_home(Path::new("rbd")), "{line}");
    }
    std::fs::remove_dir_all(&home).unwrap();
}

#[test]
fn messages_that_cannot_be_written_change_nothing() {
    let full = || std::fs::File::create("/dev/full").unwrap();
    for line in ["info none", "info --bad", "--user admin device list", "snap ls i"] {
        let status = |program: &Path| {
            let mut command = TestCluster::shared().command(program.to_str().unwrap(), line.split(' '));
            command.env("CEPH_ARGS", QUIET).stdout(full()).stderr(full()).status().unwrap().code()
        };
        let ours = status(&example("rbd"));
        assert!(ours == status(Path::new("rbd")) || line == "snap ls i" && ours == Some(1), "{line}: {ours:?}");
    }
}

/// C does not tell what is wrong in which line, as the original does.
#[test]
fn a_configuration_file_that_cannot_be_parsed_ends_both_with_the_same_status() {
    let file = std::env::temp_dir().join(format!("{}.conf", unique("bad")));
    std::fs::write(&file, "garbage\n[global\n").unwrap();
    let (original, ours) = RBD.both(&["-c", file.to_str().unwrap(), "info", "i"].map(String::from));
    std::fs::remove_file(&file).unwrap();
    for (status, text, message) in [original, ours] {
        assert_eq!((status, &*text), (1, ""));
        assert!(message.starts_with("global_init: error reading config file. "), "{message}");
    }
}

#[test]
fn users_who_may_not() {
    let cluster = TestCluster::shared();
    let pool = prepare(&["create --size 8M %/i"]);
    for caps in ["profile rbd-read-only", "allow r pool=none"] {
        let id = unique("user");
        cluster.ceph(["auth", "add", &format!("client.{id}"), "mon", "profile rbd", "osd", caps]);
        let key = cluster.ceph(["auth", "get-key", &format!("client.{id}")]);
        for line in ["info %/i", "status %/i", "info %/n/i", "feature disable %/i object-map"] {
            RBD.agree(&words(&pool, &format!("--id {id} --key {key} {line}")));
        }
        RADOS.agree(&words(&pool, &format!("--id {id} --key {key} -p % listwatchers rbd_directory")));
        cluster.ceph(["auth", "del", &format!("client.{id}")]);
    }
}

#[test]
fn what_it_cannot_do_it_refuses_by_name_or_hands_over() {
    let lines = [
        ("--id admin snap ls rbd/i", "command 'snap ls rbd/i'"),
        ("help info", "command 'help info'"),
        ("info --help", "help"),
        ("info i --version", "--version"),
        ("--show-config-value rbd_cache", "--show-config-value"),
        ("--setuser nobody info i", "--setuser"),
        ("info i --setuser-match-path=/tmp", "--setuser-match-path=/tmp"),
        ("device map -t nbd i", "device type nbd"),
    ];
    let run = |line: &str, fallback: &Path| {
        let mut command = TestCluster::shared().command(example("rbd").to_str().unwrap(), line.split(' '));
        if fallback != Path::new("") {
            command.env("RBD_FALLBACK", fallback);
        }
        said(&mut command)
    };
    for (line, name) in lines {
        let refused = format!("rbd: {name}: not supported by this program; RBD_FALLBACK can name one that does it\n");
        assert_eq!(run(line, Path::new("")), (1, String::new(), refused));
        assert_eq!(run(line, Path::new("/bin/echo")), (0, format!("{line}\n"), String::new()));
    }
    // Ceph's own message comes first.
    let (status, text, message) = run("info --client_mount_timeout=x i", Path::new(""));
    assert_eq!((status, &*text), (1, ""));
    assert!(
        message.contains("'client_mount_timeout'") && message.contains(" is none of its: not supported"),
        "{message}"
    );
    let (status, _, message) = run("snap ls", Path::new("/etc/passwd"));
    assert_eq!(
        (status, &*message),
        (1, "rbd: command 'snap ls': RBD_FALLBACK=/etc/passwd: Permission denied (os error 13)\n")
    );
    // Its status is that of the other program, which is found as a shell finds it.
    assert_eq!(run("snap ls", Path::new("false")), (1, String::new(), String::new()));
    assert_eq!(run("snap ls none/i", Path::new("rbd")).0, 2);
    let empty =
        TestCluster::shared().command(example("rbd").to_str().unwrap(), ["snap"]).env("RBD_FALLBACK", "").output();
    assert!(String::from_utf8_lossy(&empty.unwrap().stderr).contains("can name one"));
    assert!(run("snap ls", Path::new("/none")).2.contains("RBD_FALLBACK=/none: No such file"));
    // One that names this very program ends.
    assert!(run("snap ls", &example("rbd")).2.contains("not supported"));
}
