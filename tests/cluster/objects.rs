//! Objects of a pool, against the real `rados` program.

use std::process::Command;
use std::time::{Duration, SystemTime};

use rbd::name::NameError;
use rbd::rados::PoolOptions;
use rbd::{Cluster, Details, ErrorKind, NamespaceName, Pool, PoolName};
use serde_json::Value;

use super::library::OwnPool;
use super::support::{TestCluster, stdout, unique};

/// `rados ARGS` on this pool and namespace.
fn rados(pool: &Pool, args: &[&str]) -> Command {
    let namespace = pool.namespace().map_or("", |namespace| namespace.as_str());
    let on = ["--pool", pool.name().as_str(), "--namespace", namespace];
    TestCluster::shared().command("rados", on.iter().chain(args))
}

/// What `rados get` writes to standard output.
fn content(pool: &Pool, object: &str) -> Vec<u8> {
    let output = rados(pool, &["get", object, "-"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn json(pool: &Pool, args: &[&str]) -> Value {
    serde_json::from_str(&stdout(rados(pool, args).args(["--format", "json"]))).unwrap()
}

#[test]
fn what_is_written_is_read_by_others() {
    let pool = OwnPool::new();
    pool.write("o", 3, b"abc").unwrap();
    assert_eq!(content(&pool, "o"), b"\0\0\0abc");
    pool.write("o", 4, b"XY and more").unwrap();
    assert_eq!(content(&pool, "o"), b"\0\0\0aXY and more");
    pool.write_full("o", b"short").unwrap();
    assert_eq!(content(&pool, "o"), b"short");
    pool.write_full("o", b"").unwrap();
    assert_eq!(pool.stat("o").unwrap().size, 0);
    pool.remove("o").unwrap();
    assert_eq!(stdout(&mut rados(&pool, &["ls"])), "");
}

#[test]
fn reading_ends_with_the_object() {
    let pool = OwnPool::new();
    let data: Vec<u8> = (0..=255).cycle().take(5 << 20).collect();
    pool.write_full("o", &data).unwrap();
    assert!(pool.read("o", 0, 16 << 20).unwrap() == data);
    assert_eq!(pool.read("o", 5, 3).unwrap(), [5, 6, 7]);
    assert_eq!(pool.read("o", data.len() as u64 - 2, 10).unwrap(), [254, 255]);
    assert!(pool.read("o", data.len() as u64 + 1, 10).unwrap().is_empty());
    assert!(pool.read("o", 0, 0).unwrap().is_empty());
    assert_eq!(pool.read("none", 0, 0).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(pool.read("o", 0, (2 << 30) - 1).unwrap() == data);
    for (too_much, kind) in [(2 << 30, ErrorKind::InvalidInput), (usize::MAX, ErrorKind::Other)] {
        assert_eq!(pool.read("o", 0, too_much).unwrap_err().kind(), kind);
    }
}

#[test]
fn size_and_time_of_the_last_change() {
    let pool = OwnPool::new();
    let before = SystemTime::now();
    pool.write_full("o", b"twelve bytes").unwrap();
    let stat = pool.stat("o").unwrap();
    assert_eq!(stat.size, 12);
    let slack = Duration::from_secs(2);
    assert!(stat.modified + slack > before && stat.modified < SystemTime::now() + slack, "{stat:?}");
}

#[test]
fn a_missing_object_is_not_found_by_any_call() {
    let pool = OwnPool::new();
    let errors = [
        pool.stat("none").unwrap_err(),
        pool.read("none", 0, 1).unwrap_err(),
        pool.remove("none").unwrap_err(),
        pool.xattr("none", "a").unwrap_err(),
        pool.xattrs("none").unwrap_err(),
        pool.omap("none", b"", 10).unwrap_err(),
        pool.list_watchers("none").unwrap_err(),
    ];
    let object = format!("{}/none", pool.name());
    for error in errors {
        let says = (error.kind(), error.errno(), error.object());
        assert_eq!(says, (ErrorKind::NotFound, Some(libc::ENOENT), Some(object.as_str())));
    }
}

#[test]
fn attributes_are_the_same_for_others() {
    let pool = OwnPool::new();
    stdout(&mut rados(&pool, &["create", "o"]));
    assert!(pool.xattrs("o").unwrap().is_empty());
    let missing = pool.xattr("o", "a").unwrap_err();
    assert_eq!((missing.kind(), missing.errno()), (ErrorKind::Other, Some(libc::ENODATA)));

    // Larger than the first buffer, with bytes that are no text, and empty.
    let large: Vec<u8> = (0..=255).cycle().take(5000).collect();
    stdout(&mut rados(&pool, &["setxattr", "o", "by rados", "value of others"]));
    pool.set_xattr("o", "large", &large).unwrap();
    pool.set_xattr("o", "empty", b"").unwrap();
    assert_eq!(pool.xattr("o", "by rados").unwrap(), b"value of others");
    assert!(rados(&pool, &["getxattr", "o", "large"]).output().unwrap().stdout.starts_with(&large));
    let all = pool.xattrs("o").unwrap();
    let expected: [(&[u8], &[u8]); 3] = [(b"by rados", b"value of others"), (b"empty", b""), (b"large", &large)];
    assert!(all.iter().map(|(name, value)| (&name[..], &value[..])).eq(expected));
    assert_eq!(stdout(&mut rados(&pool, &["listxattr", "o"])), "by rados\nempty\nlarge\n");
    pool.set_xattr("new", "a", b"makes the object").unwrap();
    assert_eq!(pool.stat("new").unwrap().size, 0);
}

#[test]
fn an_attribute_has_a_name() {
    let pool = OwnPool::new();
    pool.write("object", 0, b"data").unwrap();
    // The OSD keeps its own record of the object under the empty name.
    for name in ["", "a\0b"] {
        assert_eq!(pool.xattr("object", name).unwrap_err().kind(), ErrorKind::InvalidName, "{name:?}");
        assert_eq!(pool.set_xattr("object", name, b"x").unwrap_err().kind(), ErrorKind::InvalidName, "{name:?}");
    }
}

#[test]
fn an_omap_is_read_in_pages() {
    let pool = OwnPool::new();
    stdout(&mut rados(&pool, &["create", "o"]));
    let empty = pool.omap("o", b"", 10).unwrap();
    assert!(empty.entries.is_empty() && !empty.more);

    for n in 0..5 {
        stdout(&mut rados(&pool, &["setomapval", "o", &format!("key {n}"), &format!("value {n}")]));
    }
    let mut after = Vec::new();
    let mut pages = Vec::new();
    loop {
        let page = pool.omap("o", &after, 2).unwrap();
        pages
            .push(page.entries.keys().map(|key| String::from_utf8(key.clone()).unwrap()).collect::<Vec<_>>().join(","));
        if !page.more {
            break;
        }
        after = page.entries.keys().next_back().unwrap().clone();
    }
    assert_eq!(pages, ["key 0,key 1", "key 2,key 3", "key 4"]);
    let rest = pool.omap("o", b"key 3", 100).unwrap();
    assert_eq!(rest.entries.into_iter().collect::<Vec<_>>(), [(b"key 4".to_vec(), b"value 4".to_vec())]);
    assert!(!rest.more);
}

#[test]
fn omap_keys_and_values_are_bytes() {
    let pool = OwnPool::new();
    let key = b"\xff\x01key";
    let script = format!("printf '\\0value\\377' | rados --pool {} setomapval o \"$1\"", pool.name());
    let mut shell = TestCluster::shared().command("sh", ["-c", &script, "sh"]);
    stdout(shell.arg(std::os::unix::ffi::OsStrExt::from_bytes(key) as &std::ffi::OsStr));
    let page = pool.omap("o", b"\xfe", 10).unwrap();
    assert_eq!(page.entries.into_iter().collect::<Vec<_>>(), [(key.to_vec(), b"\0value\xff".to_vec())]);
    let error = pool.omap("o", b"a\0b", 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn namespaces_are_apart() {
    let pool = OwnPool::new();
    let name = NamespaceName::new("a b").unwrap();
    let inner = pool.in_namespace(Some(&name)).unwrap();
    assert_eq!((inner.namespace(), inner.to_string()), (Some(&name), format!("{}/a b", pool.name())));
    pool.write_full("o", b"outer").unwrap();
    assert_eq!(inner.stat("o").unwrap_err().kind(), ErrorKind::NotFound);
    inner.write_full("o", b"inner").unwrap();
    assert_eq!((content(&pool, "o"), content(&inner, "o")), (b"outer".to_vec(), b"inner".to_vec()));
    inner.remove("o").unwrap();
    assert_eq!(inner.in_namespace(None).unwrap().read("o", 0, 10).unwrap(), b"outer");
}

#[test]
fn names_of_objects() {
    let pool = OwnPool::new();
    let longest = "n".repeat(2048);
    for name in [" ", "with a blank", "a/b@c", "ü", "-", &longest] {
        pool.write_full(name, name.as_bytes()).unwrap();
        assert_eq!(pool.read(name, 0, 4096).unwrap(), name.as_bytes());
    }
    let mut listed: Vec<_> = json(&pool, &["ls"]).as_array().unwrap().iter().map(|o| o["name"].to_string()).collect();
    listed.sort();
    assert_eq!(listed.len(), 6);
    assert!(listed.contains(&"\" \"".to_owned()) && listed.contains(&format!("\"{longest}\"")), "{listed:?}");

    for (name, fault) in [
        ("", NameError::Empty),
        ("a\0b", NameError::Contains('\0')),
        (&format!("{longest}n"), NameError::TooLong { length: 2049, limit: 2048 }),
    ] {
        let error = pool.write_full(name, b"data").unwrap_err();
        assert_eq!((error.kind(), error.details()), (ErrorKind::InvalidName, &Details::Name(fault)));
        assert!(error.object().is_some_and(|object| object.len() < 100));
    }
}

#[test]
fn a_user_without_capabilities_is_denied() {
    let pool = OwnPool::new();
    pool.write_full("o", b"data").unwrap();
    let admin = pool.cluster();
    let connect_with = |caps: &[&str]| {
        let entity = format!("client.{}", unique("user"));
        TestCluster::shared().ceph(["auth", "get-or-create-key", &entity].iter().chain(caps));
        let builder = Cluster::builder().config_file(TestCluster::shared().conf()).entity(&entity);
        builder.key(admin.auth_key(&entity).unwrap()).connect()
    };
    #[track_caller]
    fn assert_denied<T: std::fmt::Debug>(result: rbd::Result<T>) {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    assert_denied(connect_with(&[]));

    let no_osd = connect_with(&["mon", "allow r"]).unwrap().pool(pool.name().clone()).unwrap();
    let denied = no_osd.stat("o").unwrap_err();
    assert_eq!(denied.hint(), Some("the user's capabilities do not allow it: see `ceph auth get`"));
    assert_denied(no_osd.read("o", 0, 1));
    assert_denied(no_osd.xattrs("o"));
    assert_denied(no_osd.omap("o", b"", 1));
    assert_denied(no_osd.list_watchers("o"));
    assert_denied(no_osd.open_read_only("image"));
    assert_denied(no_osd.cluster().create_pool(&PoolName::new(unique("pool")).unwrap(), &PoolOptions::default()));

    let caps = ["mon", "allow r", "osd", "allow r"];
    let reader = connect_with(&caps).unwrap().pool(pool.name().clone()).unwrap();
    assert_eq!(reader.read("o", 0, 4).unwrap(), b"data");
    assert_denied(reader.write("o", 0, b"x"));
    assert_denied(reader.set_xattr("o", "a", b"x"));
    assert_denied(reader.remove("o"));
    assert_eq!(content(&pool, "o"), b"data");
}
