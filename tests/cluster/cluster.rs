//! What a cluster as a whole is asked, against what the real programs print.

use std::time::Duration;

use rbd::rados::PoolOptions;
use rbd::{Cluster, Details, EntityAddress, ErrorKind, PoolName, Version};
use serde_json::{Value, json};

use super::library::{OwnPool, connect};
use super::support::{PrivateCluster, TestCluster, poll_until, unique};

fn cluster() -> &'static TestCluster {
    TestCluster::shared()
}

fn ceph_json(args: &[&str]) -> Value {
    serde_json::from_str(&cluster().ceph(args.iter().chain(&["--format", "json"]))).unwrap()
}

fn new_pool_name() -> PoolName {
    unique("pool").parse().unwrap()
}

#[test]
fn identity_and_versions() {
    let library = connect(cluster());
    assert_eq!(library.fsid().unwrap().to_string(), cluster().ceph(["fsid"]).trim());
    assert_eq!(library.cluster_version().unwrap(), cluster().ceph(["version"]).trim());
    let (rados, rbd) = Cluster::library_versions();
    assert_eq!(rados, Version { major: 3, minor: 0, extra: 0 });
    assert!(rbd.major == 1 && rbd.minor >= 16, "{rbd}");
    let dump = ceph_json(&["mon", "dump"]);
    let addresses = dump["mons"][0]["public_addrs"]["addrvec"].as_array().unwrap();
    let expected =
        addresses.iter().map(|a| format!("{}:{}/0", a["type"].as_str().unwrap(), a["addr"].as_str().unwrap()));
    let monitors = library.monitors().unwrap();
    assert_eq!(monitors.monitors().len(), 1);
    assert!(monitors.monitors().flatten().map(EntityAddress::to_string).eq(expected), "{monitors}");
}

#[test]
fn a_connection_knows_itself_as_others_see_it() {
    let pool = OwnPool::new();
    let library = pool.cluster();
    cluster().rbd(["create", &pool.spec("image"), "--size", "8M"]);
    let held = pool.open("image").unwrap();
    let seen = cluster().rbd_json(["status", &pool.spec("image")])["watchers"][0].clone();
    assert_eq!(seen["client"].as_u64(), Some(library.instance_id()));
    let address: EntityAddress = seen["address"].as_str().unwrap().parse().unwrap();
    let own = library.addresses().unwrap();
    assert!(own.iter().all(|own| own.same_endpoint(&address)) && !own.is_empty(), "{own:?} {address}");
    drop(held);
    assert_ne!(connect(cluster()).instance_id(), library.instance_id());
    let name = format!("Connection(client.{})", library.instance_id());
    assert!(format!("{library:?}").contains(&name), "{library:?}");
}

#[test]
fn options_are_read_but_not_the_key() {
    let library = connect(cluster());
    assert_eq!(library.config("rbd_default_pool").unwrap(), "rbd");
    assert_eq!(library.default_pool().unwrap().as_str(), "rbd");
    assert_eq!(library.config("keyring").unwrap(), cluster().keyring().to_str().unwrap());
    let missing = library.config("frobnicate").unwrap_err();
    assert_eq!((missing.kind(), missing.object()), (ErrorKind::NotFound, Some("frobnicate")));

    let with_key = Cluster::builder().config_file(cluster().conf()).key(library.auth_key("client.admin").unwrap());
    let with_key = with_key.connect().unwrap();
    for spelling in ["key", " key ", "key\n"] {
        assert_eq!(with_key.config(spelling).unwrap_err().kind(), ErrorKind::PermissionDenied, "{spelling:?}");
    }
}

#[test]
fn pools_are_listed_and_looked_up() {
    let own = OwnPool::new();
    let library = own.cluster();
    let listed = library.pools().unwrap();
    assert!(listed.iter().any(|name| name.to_str() == Some("rbd")));
    assert!(listed.iter().any(|name| name.to_str() == Some(own.name().as_str())));
    let printed = ceph_json(&["osd", "lspools"]);
    let of_own = printed.as_array().unwrap().iter().find(|pool| pool["poolname"] == own.name().as_str()).unwrap();
    let id = of_own["poolnum"].as_i64().unwrap();
    assert_eq!((own.id(), library.pool_id(own.name()).unwrap()), (id, id));
    assert_eq!(library.pool_name(id).unwrap(), own.name().as_str());

    let none = new_pool_name();
    let errors = [
        library.pool_id(&none).unwrap_err(),
        library.pool(none.clone()).unwrap_err(),
        library.pool_name(i64::MAX).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    assert_eq!(library.pool("a/b").unwrap_err().kind(), ErrorKind::InvalidName);
}

#[test]
fn a_pool_is_made_as_asked_and_deleted_behind_its_name() {
    let library = connect(cluster());
    let name = PoolName::new(format!("with a blank {}", unique("pool"))).unwrap();
    library.create_pool(&name, &PoolOptions::for_images().pg_num(4)).unwrap();
    let get = ceph_json(&["osd", "pool", "get", name.as_str(), "pg_num"]);
    assert_eq!(get["pg_num"], 4);
    assert_eq!(ceph_json(&["osd", "pool", "application", "get", name.as_str()]), json!({"rbd": {}}));
    let again = library.create_pool(&name, &PoolOptions::default()).unwrap_err();
    assert_eq!((again.kind(), again.object()), (ErrorKind::AlreadyExists, Some(name.as_str())));

    let unconfirmed = library.delete_pool_with_all_data(&name, "yes").unwrap_err();
    assert_eq!(unconfirmed.kind(), ErrorKind::InvalidInput);
    assert!(library.pool_id(&name).is_ok());
    library.delete_pool_with_all_data(&name, name.as_str()).unwrap();
    assert!(!cluster().rados(["lspools"]).lines().any(|line| line == name.as_str()));
    let gone = library.delete_pool_with_all_data(&name, name.as_str()).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
}

#[test]
fn a_pool_without_placement_groups_is_not_made() {
    let library = connect(cluster());
    let name = new_pool_name();
    let refused = library.create_pool(&name, &PoolOptions::default().pg_num(0)).unwrap_err();
    assert_eq!((refused.kind(), refused.object()), (ErrorKind::InvalidInput, Some(name.as_str())), "{refused}");
    assert_eq!(library.pool_id(&name).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn the_clusters_own_words_are_in_the_error() {
    let library = connect(cluster());
    let name = new_pool_name();
    let refused = library.create_pool(&name, &PoolOptions::default().pg_num(1 << 20)).unwrap_err();
    assert_eq!((refused.operation(), refused.object()), ("create pool", Some(name.as_str())), "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("pg_num")), "{refused}");
    for (command, kind, says) in [
        (json!({"prefix": "frobnicate"}), ErrorKind::InvalidInput, "command not known"),
        (
            json!({"prefix": "osd pool get", "pool": "none", "var": "size"}),
            ErrorKind::NotFound,
            "unrecognized pool 'none'",
        ),
    ] {
        let error = library.mon_command(&command).unwrap_err();
        assert_eq!((error.kind(), error.object()), (kind, command["prefix"].as_str()), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains(says)), "{error}");
    }
    assert_eq!(library.mon_command(&json!({})).unwrap_err().kind(), ErrorKind::InvalidInput);

    // The monitors say a name again as it was sent; the error stays one line, without a NUL.
    for (entity, shown) in [("a\nb", "a\\nb"), ("a\0b", "a\\u{0}b")] {
        let refused = library.auth_key(entity).unwrap_err();
        assert!(refused.hint().is_some_and(|hint| hint.contains(entity)), "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains(&format!("invalid entity_auth {shown}")) && !text.contains(char::is_control), "{text:?}");
    }
}

#[test]
fn monitors_and_osds_answer_commands() {
    let library = connect(cluster());
    let dump = library.mon_command(&json!({"prefix": "osd metadata", "id": 0, "format": "json"})).unwrap();
    assert_eq!(dump.json::<Value>().unwrap(), ceph_json(&["osd", "metadata", "0"]));
    assert_eq!(dump.json::<Vec<u8>>().unwrap_err().kind(), ErrorKind::InvalidData);
    let version: Value =
        library.osd_command(0, &json!({"prefix": "version", "format": "json"})).unwrap().json().unwrap();
    assert_eq!(version, ceph_json(&["tell", "osd.0", "version"]));
    for (id, kind, says) in [(99, ErrorKind::NotFound, Some("osd dne")), (-1, ErrorKind::InvalidInput, None)] {
        let error = library.osd_command(id, &json!({"prefix": "version"})).unwrap_err();
        assert_eq!((error.kind(), error.object(), error.hint()), (kind, Some("version"), says));
    }
}

#[test]
fn an_answer_may_be_larger_than_a_megabyte() {
    const LARGEST_VALUE: usize = 65536; // mon_config_key_max_entry_size
    let library = connect(cluster());
    let prefix = unique("rbd-test");
    let keys: Vec<_> = (0..20).map(|n| format!("{prefix}/{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        let value = char::from(b'a' + n as u8).to_string().repeat(LARGEST_VALUE);
        library.mon_command(&json!({"prefix": "config-key set", "key": key, "val": value})).unwrap();
    }
    let dump = library.mon_command(&json!({"prefix": "config-key dump", "key": prefix, "format": "json"})).unwrap();
    assert!(dump.data.len() > 20 * LARGEST_VALUE);
    assert_eq!(dump.json::<Value>().unwrap(), ceph_json(&["config-key", "dump", &prefix]));
    for key in &keys {
        library.mon_command(&json!({"prefix": "config-key rm", "key": key})).unwrap();
    }
}

#[test]
fn a_key_is_looked_up_by_who_may() {
    let library = connect(cluster());
    let user = format!("client.{}", unique("user"));
    let key = library.auth_key(&user).unwrap_err();
    assert_eq!(
        (key.kind(), key.operation(), key.object()),
        (ErrorKind::NotFound, "look up key of", Some(user.as_str()))
    );
    let printed = cluster().ceph(["auth", "get-or-create-key", &user, "mon", "allow r"]);
    let key = library.auth_key(&user).unwrap();
    assert_eq!(key.expose(), printed.trim());
    assert_eq!(cluster().ceph(["auth", "get-key", &user]), key.expose());

    let limited = Cluster::builder().config_file(cluster().conf()).entity(&user).key(key.clone()).connect().unwrap();
    assert_eq!(limited.entity().unwrap(), user);
    let denied = limited.auth_key("client.admin").unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied, "{denied}");
}

#[test]
fn the_blocklist_takes_clients_and_lets_them_go() {
    let library = connect(cluster());
    let client: EntityAddress = "192.0.2.77:0/3710147553".parse().unwrap();
    let with_protocol: EntityAddress = "v1:192.0.2.78:0/42".parse().unwrap();
    for address in [&client, &with_protocol] {
        library.blocklist_add(address, Duration::from_secs(3600)).unwrap();
    }
    let printed = cluster().ceph(["osd", "blocklist", "ls"]);
    for address in [client, with_protocol.without_protocol()] {
        let line = printed.lines().find(|line| line.starts_with(&address.to_string())).unwrap();
        let entries = library.blocklist().unwrap();
        let entry = entries.iter().find(|entry| entry.address == address).unwrap();
        assert_eq!(line, format!("{address} {}", entry.until));
        assert_eq!(entry.until.len(), "2026-11-30T21:00:00.000000+0000".len());
        library.blocklist_remove(&address).unwrap();
    }
    let printed = cluster().ceph(["osd", "blocklist", "ls"]);
    assert!(!printed.contains("192.0.2.77") && !printed.contains("192.0.2.78"), "{printed}");
    let gone = library.blocklist_remove(&client).unwrap_err();
    assert_eq!((gone.kind(), gone.object()), (ErrorKind::NotFound, Some("192.0.2.77:0/3710147553")));
}

#[test]
fn a_blocklist_entry_that_would_do_nothing_is_refused() {
    let library = connect(cluster());
    let client: EntityAddress = "192.0.2.79:0/7".parse().unwrap();
    for (address, expiry) in [(EntityAddress::BLANK, Duration::from_secs(60)), (client, Duration::ZERO)] {
        let error = library.blocklist_add(&address, expiry).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    // For longer than the clock of the cluster goes: it holds all the same.
    library.blocklist_add(&client, Duration::MAX).unwrap();
    assert!(library.blocklist().unwrap().iter().any(|entry| entry.address == client));
    library.blocklist_remove(&client).unwrap();
}

#[test]
fn disconnecting_is_refused_while_handles_live() {
    let library = connect(cluster());
    let pool = library.pool("rbd").unwrap();
    assert_eq!(library.disconnect().unwrap_err().kind(), ErrorKind::Busy);
    let library = pool.cluster();
    assert_eq!(pool.stat("none").unwrap_err().kind(), ErrorKind::NotFound);
    drop(pool);
    library.disconnect().unwrap();
}

#[test]
fn a_manager_is_asked_and_may_be_late() {
    let private = PrivateCluster::start(&["--mgr", "--store", "memstore"]);
    let library = Cluster::builder().config_file(private.conf()).mon_timeout(Duration::from_secs(1)).connect().unwrap();
    let command = json!({"prefix": "pg stat", "format": "json"});
    let answer: Value = library.mgr_command(&command).unwrap().json().unwrap();
    let printed: Value = serde_json::from_str(&private.ceph(["pg", "stat", "--format", "json"])).unwrap();
    assert_eq!(answer["pg_summary"]["num_pgs"], printed["pg_summary"]["num_pgs"]);

    let paused = private.pause("mgr.x");
    // librados must not give it up after its own time-out: the late answer would be written to a stack that is gone.
    let late = library.with_deadline(Duration::from_secs(2)).mgr_command(&command).unwrap_err();
    assert_eq!((late.kind(), late.details()), (ErrorKind::TimedOut, &Details::StillRunning), "{late}");
    assert_eq!(library.config("rados_mon_op_timeout").unwrap(), "0");
    drop(paused);
    assert!(library.mgr_command(&command).is_ok());
    poll_until(Duration::from_secs(10), || (library.config("rados_mon_op_timeout").unwrap() == "1").then_some(()));
}

#[test]
fn without_a_manager_a_command_to_it_passes_its_deadline() {
    let library = connect(cluster()).with_deadline(Duration::from_millis(200));
    let error = library.mgr_command(&json!({"prefix": "pg stat"})).unwrap_err();
    assert_eq!((error.kind(), error.details()), (ErrorKind::TimedOut, &Details::StillRunning), "{error}");
}
