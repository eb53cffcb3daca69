//! Every way to connect, and what goes wrong with it.

use std::fs;
use std::net::{Ipv6Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rbd::rados::ClusterBuilder;
use rbd::{Cluster, Error, ErrorKind, Secret};
use tempfile::TempDir;

use super::child;
use super::support::{PrivateCluster, TestCluster, unique};

fn cluster() -> &'static TestCluster {
    TestCluster::shared()
}

/// Its monitor. Without a protocol librados tries both there, and says "timed out" where one of them refuses the key.
fn mon() -> String {
    format!("v2:{}", cluster().mon_v2())
}

fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// The key of client.admin.
fn key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(|| {
        let keyring = fs::read_to_string(cluster().keyring()).unwrap();
        keyring.lines().find_map(|line| line.trim().strip_prefix("key = ")).unwrap().to_owned()
    })
}

/// Only what is said here.
fn bare() -> ClusterBuilder {
    Cluster::builder().no_config_file()
}

#[track_caller]
fn assert_connects(builder: &ClusterBuilder) -> Cluster {
    static FSID: OnceLock<String> = OnceLock::new();
    let cluster = builder.connect().unwrap();
    let fsid = FSID.get_or_init(|| self::cluster().ceph(["fsid"]).trim().to_owned());
    assert_eq!(cluster.fsid().unwrap().to_string(), *fsid);
    cluster
}

/// The error of a connect that fails. The key of client.admin, and any value that looks like one, is not in it.
#[track_caller]
fn error_of(builder: &ClusterBuilder) -> Error {
    let error = builder.connect().unwrap_err();
    let text = format!("{builder:?} {error} {error:#} {error:?}");
    assert!(!text.contains(key()) && !text.contains("SECRET"), "{text}");
    error
}

/// A file of this content.
fn file(dir: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

/// A configuration file with all that is needed, which is not the test cluster's own.
fn whole_file(dir: &TempDir, name: &str) -> PathBuf {
    let keyring = cluster().keyring();
    file(dir, name, &format!("[global]\nmon host = {}\nkeyring = {}\n", mon(), keyring.display()))
}

#[test]
fn a_configuration_file_is_enough() {
    let cluster = assert_connects(&Cluster::builder().config_file(cluster().conf()));
    assert_eq!(cluster.entity().unwrap(), "client.admin");
}

#[test]
fn monitors_and_any_form_of_the_key_are_enough() {
    let dir = TempDir::new().unwrap();
    let mon = mon();
    assert_connects(&bare().mon_host(&mon).key(Secret::new(key())));
    assert_connects(&bare().mon_host(&mon).keyring(cluster().keyring()));
    assert_connects(&bare().mon_host(&mon).key_file(file(&dir, "a key", &format!("{}\n", key()))));
    let keyring = format!("[client.admin]\nkey = {}\n", key());
    assert_connects(&bare().mon_host(&mon).keyring(file(&dir, "some=a keyring", &keyring)));
    assert_connects(&bare().option("mon_host", &mon).option("key", key()));
}

#[test]
fn what_is_set_wins_over_the_file() {
    let dir = TempDir::new().unwrap();
    let wrong = file(&dir, "ceph.conf", "[global]\nmon host = 127.0.0.1:1\nkey = SECRETSECRET\n");
    let builder = Cluster::builder().config_file(wrong).mon_host(&mon());
    assert_connects(&builder.key(Secret::new(key())));
}

#[test]
fn monitors_are_reached_by_either_protocol() {
    let (v1, v2) = (format!("v1:{}", cluster().mon_v1()), mon());
    for mon_host in [format!("[{v2},{v1}]"), v1, v2] {
        let cluster = assert_connects(&bare().mon_host(&mon_host).keyring(cluster().keyring()));
        assert_eq!(cluster.config("mon_host").unwrap(), mon_host);
    }
}

#[test]
fn a_user_is_named_by_its_id_or_in_full() {
    let name = unique("user");
    let entity = format!("client.{name}");
    let key = cluster().ceph(["auth", "get-or-create-key", &entity, "mon", "allow r"]);
    let bare = || bare().mon_host(&mon()).key(Secret::new(key.clone()));
    for builder in [bare().user(&name), bare().entity(&entity)] {
        assert_eq!(assert_connects(&builder).entity().unwrap(), entity);
    }
}

#[test]
fn the_usual_files_are_searched() {
    let home = TempDir::new().unwrap();
    let name = unique("name");
    whole_file(&home, &format!(".ceph/{name}.conf"));
    child::run(
        |command| {
            command.env("HOME", home.path()).env("RBD_TEST_NAME", &name);
        },
        || {
            assert_connects(&Cluster::builder().cluster_name(&std::env::var("RBD_TEST_NAME").unwrap()))
                .disconnect()
                .unwrap()
        },
    );
}

#[test]
fn the_file_in_the_environment_is_read_on_request_only() {
    let dir = TempDir::new().unwrap();
    let file = whole_file(&dir, "elsewhere.conf");
    child::run(
        |command| {
            command.env("CEPH_CONF", &file).env("HOME", dir.path());
        },
        || {
            let builder = Cluster::builder().cluster_name(&unique("name"));
            assert_connects(&builder.clone().use_environment());
            let unasked = error_of(&builder);
            assert_eq!((unasked.operation(), unasked.kind()), ("connect to cluster", ErrorKind::NotFound), "{unasked}");
            let given = error_of(&builder.config_file("/nonexistent").use_environment());
            assert_eq!((given.kind(), given.object()), (ErrorKind::NotFound, Some("/nonexistent")));
        },
    );
}

#[test]
fn a_file_in_the_environment_must_be_there() {
    child::run(
        |command| {
            command.env("CEPH_CONF", "/nonexistent/ceph.conf");
        },
        || {
            let error = error_of(&Cluster::builder().use_environment());
            assert_eq!((error.kind(), error.object()), (ErrorKind::NotFound, Some("/nonexistent/ceph.conf")));
        },
    );
}

/// librados looks at `CEPH_ARGS` unasked.
#[test]
fn what_is_set_wins_over_options_in_the_environment() {
    child::run(
        |command| {
            command.env("CEPH_ARGS", "--mon-host=127.0.0.1:1 --keyring=/nonexistent --log-max-new=77");
        },
        || {
            let cluster = assert_connects(&bare().mon_host(&mon()).keyring(cluster().keyring()));
            assert_eq!(cluster.config("log_max_new").unwrap(), "77");
        },
    );
}

#[test]
fn every_failure_says_what_to_mend_and_nothing_is_printed() {
    let stderr = child::run(
        |_| (),
        || {
            use ErrorKind::{InvalidInput, NotFound, PermissionDenied};
            let dir = TempDir::new().unwrap();
            let file = |content: &str| file(&dir, &unique("file"), content);
            let monitor = || bare().mon_host(&mon());
            let configured = |content: &str| Cluster::builder().config_file(file(content));
            // A key like any other, of no user.
            let another = || Secret::new("AQBXKixnAAAAABAAdKGpUmWKuAuSvCcmaSbfXQ==");
            let denied = "the cluster does not know this user with this key, no key of the user was found, or it has no capability";
            let unparsable = "the key or an address cannot be parsed";
            let keyring = "the keyring or key file cannot be parsed";
            for (builder, operation, kind, hint) in [
                (monitor().key(another()), "connect to cluster", PermissionDenied, denied),
                (monitor().user("nobody").key(another()), "connect to cluster", PermissionDenied, denied),
                (monitor().user("nobody").keyring(cluster().keyring()), "connect to cluster", PermissionDenied, denied),
                (monitor().keyring(file("")), "connect to cluster", PermissionDenied, denied),
                (monitor().option("keyring", "/nonexistent"), "connect to cluster", PermissionDenied, denied),
                (monitor().key(Secret::new("SECRET!")), "connect to cluster", InvalidInput, unparsable),
                (monitor().key(Secret::new("AQBXKixnAAAA")), "connect to cluster", InvalidInput, unparsable),
                (monitor().key_file(file("SECRET!\n")), "connect to cluster", InvalidInput, unparsable),
                (monitor().key_file(file("")), "connect to cluster", InvalidInput, unparsable),
                (monitor().keyring(file("SECRET!\n")), "connect to cluster", InvalidInput, keyring),
                (
                    monitor().keyring(file("[client.admin]\nkey = SECRET\n")),
                    "connect to cluster",
                    InvalidInput,
                    keyring,
                ),
                (
                    monitor().option("log_max_new", "SECRET"),
                    "set option",
                    InvalidInput,
                    "Ceph does not take this value",
                ),
                (monitor().option("secret", "SECRET"), "set option", InvalidInput, "Ceph knows no option of this name"),
                (monitor().key(Secret::new("")), "read key", InvalidInput, "it is empty"),
                (bare().mon_host("127.0.0.1:99999"), "parse address", InvalidInput, "the port is a number up to 65535"),
                (
                    bare().mon_host("2001:db8::12:3300"),
                    "parse address",
                    InvalidInput,
                    "ambiguous: IPv6 with a port needs brackets, such as [2001:db8::1]:3300",
                ),
                (
                    bare().mon_host("no-such-host.invalid"),
                    "look up monitor",
                    InvalidInput,
                    "it is neither an IP address nor a known host name",
                ),
                (
                    configured("[global\nmon host = x\n"),
                    "read configuration file",
                    InvalidInput,
                    "Ceph cannot parse it",
                ),
                (configured("\u{1}\0\n"), "read configuration file", InvalidInput, "Ceph cannot parse it"),
            ] {
                let error = error_of(&builder);
                assert_eq!((error.operation(), error.kind(), error.hint()), (operation, kind, Some(hint)), "{error:?}");
            }
            for (builder, operation) in [
                (monitor().key_file("/nonexistent"), "read key"),
                (monitor().keyring("/nonexistent"), "read key"),
                (Cluster::builder().config_file("/nonexistent"), "read configuration file"),
            ] {
                let error = error_of(&builder);
                let says = (error.operation(), error.kind(), error.object());
                assert_eq!(says, (operation, NotFound, Some("/nonexistent")), "{error:?}");
            }
        },
    );
    assert!(stderr.is_none_or(|stderr| stderr.is_empty()));
}

#[test]
fn a_pipe_in_the_place_of_a_keyring_is_refused_and_not_waited_for() {
    let dir = TempDir::new().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = error_of(&bare().mon_host(&mon()).keyring(&pipe));
    assert_eq!((error.operation(), error.kind()), ("read key", ErrorKind::InvalidInput));
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    // Made, and removed again, by the process that stays root.
    let mut dir = None;
    child::run(
        |command| {
            let dir = dir.insert(TempDir::new().unwrap());
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o711)).unwrap();
            let file = whole_file(dir, "ceph.conf");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            command.env("RBD_TEST_FILE", file);
        },
        || {
            let file = PathBuf::from(std::env::var_os("RBD_TEST_FILE").unwrap());
            key();
            // SAFETY: it changes the user of this process alone, which is the test's own.
            if unsafe { libc::setuid(65534) } != 0 {
                // Not root: then it is this user's own, who can take it away from itself.
                fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
            }
            for builder in [Cluster::builder().config_file(&file), bare().keyring(&file), bare().key_file(&file)] {
                let error = error_of(&builder);
                assert_eq!((error.kind(), error.object()), (ErrorKind::PermissionDenied, file.to_str()));
            }
        },
    );
}

#[test]
fn a_name_without_a_type_is_refused() {
    let error = error_of(&bare().entity("admin"));
    assert_eq!((error.kind(), error.object()), (ErrorKind::InvalidInput, Some("admin")));
}

/// Case B58. A monitor that is dead is a listener that says nothing.
#[test]
fn a_dead_monitor_is_a_time_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mon_host = format!("v2:{}", listener.local_addr().unwrap());
    let builder = bare().mon_host(&mon_host).keyring(cluster().keyring());
    for (deadline, at_most) in [(2000, 5000), (300, 5000), (0, 5000)].map(|(a, b)| (millis(a), millis(b))) {
        let start = Instant::now();
        let error = error_of(&builder.clone().connect_deadline(deadline));
        let elapsed = start.elapsed();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert_eq!(error.hint(), Some("no monitor answered: check mon_host and the network"));
        assert!(elapsed >= deadline && elapsed < at_most, "{elapsed:?} for {deadline:?}");
    }
}

#[test]
fn ipv6_is_used_throughout() {
    let cluster = PrivateCluster::start(&["--addr", "::1", "--store", "memstore"]);
    assert!(cluster.mon_v2().starts_with("[::1]:"));
    let by_file = Cluster::builder().config_file(cluster.conf()).connect().unwrap();
    let by_address = bare().mon_host(&format!("v2:{}", cluster.mon_v2())).keyring(cluster.keyring());
    assert_eq!(by_address.connect().unwrap().fsid().unwrap(), by_file.fsid().unwrap());

    let addresses = by_file.addresses().unwrap();
    assert!(addresses.iter().all(|address| address.ip() == Ipv6Addr::LOCALHOST), "{addresses:?}");
    let image = cluster.image(&["--size", "8M"]);
    let holder = by_file.open(&image.spec().parse().unwrap()).unwrap();
    let printed = cluster.rados(["--pool", "rbd", "listwatchers", &image.header()]);
    let watchers = holder.watchers().unwrap();
    assert_eq!(printed.trim(), format!("watcher={}", watchers[0]));
    assert!(addresses[0].same_endpoint(&watchers[0].address), "{addresses:?} {watchers:?}");

    let other = "[2001:db8::7]:0/4242".parse().unwrap();
    by_file.blocklist_add(&other, Duration::from_secs(60)).unwrap();
    assert!(cluster.ceph(["osd", "blocklist", "ls"]).contains("[2001:db8::7]:0/4242"));
    assert_eq!(by_file.blocklist().unwrap().iter().map(|entry| entry.address).collect::<Vec<_>>(), [other]);
    by_file.blocklist_remove(&other).unwrap();
    assert_eq!(by_file.blocklist().unwrap(), []);
}
