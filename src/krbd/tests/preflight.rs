//! What stands in the way of a map, looked at on hosts that have it.

use super::*;

/// The host's driver by the `/proc` of a process with these capabilities and user ids.
fn seen_with(host: &Host, capabilities: &str, ids: &str, file_system: &str) -> Preflight {
    let root = host.root.path();
    let own = root.join("proc/self");
    for (process, network) in [("self", "net:[2]"), ("1", "net:[1]")] {
        fs::create_dir_all(root.join("proc").join(process).join("ns")).unwrap();
        std::os::unix::fs::symlink(network, root.join("proc").join(process).join("ns/net")).unwrap();
    }
    // A program may have any name.
    fs::write(own.join("status"), [b"Name:\t\xff\nCapEff:\t", capabilities.as_bytes(), b"\n"].concat()).unwrap();
    fs::write(own.join("uid_map"), format!("{ids}\n")).unwrap();
    let dev = root.join("dev");
    fs::write(own.join("mountinfo"), format!("1 0 0:5 / {} rw - {file_system} x rw\n", dev.display())).unwrap();
    let preflight = Krbd::with_roots(root.join("sys"), dev, root.join("proc")).preflight();
    fs::remove_dir_all(root.join("proc")).unwrap();
    preflight
}

const ALL: &str = "000001ffffffffff";
const INITIAL: &str = "         0          0 4294967295";

#[test]
fn each_obstacle_is_named_by_itself() {
    let host = Host::new();
    let found = seen_with(&host, ALL, INITIAL, "devtmpfs");
    assert_eq!((found.sysfs, found.privileged), (SysfsAccess::Writable, Some(true)));
    assert_eq!((found.nodes, found.network), (Nodes::Devtmpfs, Network::Other));

    let missing = "CAP_SYS_ADMIN in the initial user namespace is missing";
    for (capabilities, ids) in [("0000000000000000", INITIAL), (ALL, "0 100000 65536")] {
        let found = seen_with(&host, capabilities, ids, "tmpfs");
        assert_eq!((found.privileged, found.nodes), (Some(false), Nodes::Other));
        assert!(found.obstacles().contains(&missing) && found.to_string().contains(missing), "{found}");
    }

    fs::remove_dir_all(host.bus()).unwrap();
    let found = seen_with(&host, ALL, INITIAL, "devtmpfs");
    assert_eq!((found.module, found.sysfs), (ModuleState::NotLoaded, SysfsAccess::Missing));
    assert_eq!(found.obstacles()[0], "the kernel's rbd module is not loaded");
}

#[cfg(feature = "serde")]
#[test]
fn json_has_each_part_in_plain_words() {
    let host = Host::new();
    let json = serde_json::to_value(seen_with(&host, ALL, INITIAL, "devtmpfs")).unwrap();
    assert_eq!((&json["sysfs"], &json["privileged"]), (&"writable".into(), &true.into()));
    assert_eq!((&json["nodes"], &json["network"]), (&"devtmpfs".into(), &"other".into()));
    assert_eq!(json["module"], serde_json::json!({ "built_in": { "single_major": null } }));
}
