//! Watchers, lock owners and lockers.

use proptest::prelude::*;
use rbd::{ErrorKind, LockMode, LockOwner, Locker, Watcher, WatcherKind, parse_client_id};

fn watcher(line: &str) -> Watcher {
    line.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_line_of_listwatchers_is_read_to_its_parts() {
    let line = "watcher=192.0.2.10:0/2359070641 client.35594571 cookie=18446462598732840969";
    let kernel = watcher(line);
    assert_eq!(kernel.address, "192.0.2.10:0/2359070641".parse().unwrap());
    assert_eq!((kernel.client, kernel.cookie), (35_594_571, 0xffff_0000_0000_0009));
    assert_eq!(kernel.kind(), WatcherKind::Kernel);
    assert_eq!(kernel.timeout, None);
    assert_eq!(format!("watcher={kernel}"), line);
    // `rbd status` puts a tab before it; the kernel names the same client without a dot.
    assert_eq!(watcher(&format!("\t{line}\n")), kernel);
    assert_eq!(parse_client_id("client35594571").unwrap(), kernel.client);
    assert!(kernel.address.same_endpoint(&"192.0.2.10:0/2359070641".parse().unwrap()));
}

#[test]
fn the_colons_of_an_ipv6_watcher_stay_where_they_belong() {
    let line = "watcher=[2001:db8::1]:0/3012034728 client.4235 cookie=18446462598732840961";
    let short = watcher(line);
    assert_eq!(short, watcher("[2001:db8:0:0:0:0:0:1]:0/3012034728 client.4235 cookie=18446462598732840961"));
    assert_eq!(format!("watcher={short}"), line);
}

#[test]
fn the_cookie_tells_the_kind_of_client() {
    let kind = |cookie| Watcher::new("192.0.2.1:0/1".parse().unwrap(), 1, cookie).kind();
    assert_eq!(kind(0xffff_0000_0000_0001), WatcherKind::Kernel);
    assert_eq!(kind(u64::MAX), WatcherKind::Kernel);
    assert_eq!(kind(140_243_164_552_224), WatcherKind::UserSpace);
    assert_eq!(kind(94_117_311_848_448), WatcherKind::UserSpace);
    assert_eq!(kind(0), WatcherKind::Unknown);
    assert_eq!(kind(1), WatcherKind::Unknown);
    assert_eq!(kind(0xffff_0000_0000_0000), WatcherKind::Unknown);
    assert_eq!(kind(1 << 60), WatcherKind::Unknown);
}

#[test]
fn what_is_no_watcher_line_is_an_error() {
    for line in [
        "",
        "watcher=",
        "Watchers: none",
        "192.0.2.1:0/1",
        "192.0.2.1:0/1 client.1",
        "192.0.2.1:0/1 client.1 cookie=",
        "192.0.2.1:0/1 client.1 cookie=x",
        "192.0.2.1:0/1 client.1 cookie=-1",
        "192.0.2.1:0/1 client.1 cookie=18446744073709551616",
        "192.0.2.1:0/1 client. cookie=1",
        "192.0.2.1:0/1 mon.1 cookie=1",
        "192.0.2.1:0/1 client.1 cookie=1 more",
        "2001:db8::1:0/1 client.1 cookie=1",
        "mon-a:0/1 client.1 cookie=1",
    ] {
        assert_eq!(line.parse::<Watcher>().unwrap_err().kind(), ErrorKind::InvalidInput, "{line}");
    }
    let error = "2001:db8::12:33/1 client.1 cookie=1".parse::<Watcher>().unwrap_err();
    assert!(format!("{error:#}").contains("ambiguous"), "{error:#}");
}

#[test]
fn a_client_id_has_two_spellings() {
    assert_eq!(parse_client_id("client.4485").unwrap(), 4485);
    assert_eq!(parse_client_id("client4485").unwrap(), 4485);
    for name in
        ["", "client", "client.", "client..1", "client.x", "client.-1", "client.+1", "osd.1", "client.1 ", "4485"]
    {
        assert_eq!(parse_client_id(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
    }
}

#[test]
fn the_cookie_of_an_automatic_lock_leads_to_its_watcher() {
    let locker = Locker::new("client.4485", "auto 18446462598732840961", "192.0.2.21:0/3029".parse().unwrap());
    assert_eq!(locker.cookie, "auto 18446462598732840961");
    assert_eq!(locker.watch_cookie(), Some(18_446_462_598_732_840_961));
    let holder = watcher("192.0.2.21:0/3029 client.4485 cookie=18446462598732840961");
    assert!(locker.is_alive(&[holder]));
    assert!(!locker.is_alive(&[]));
    // Every kernel client counts its cookies from the same number.
    assert!(!locker.is_alive(&[watcher("192.0.2.22:0/3029 client.4486 cookie=18446462598732840961")]));
    assert!(!locker.is_alive(&[watcher("192.0.2.21:0/3029 client.4485 cookie=18446462598732840962")]));
    assert_eq!(locker.to_string(), r#"client.4485 "auto 18446462598732840961" 192.0.2.21:0/3029"#);
}

#[test]
fn a_manual_lock_has_any_cookie() {
    let manual = |cookie: &str| Locker::new("client.4485", cookie, "192.0.2.21:0/3029".parse().unwrap());
    for cookie in
        ["", "my lock", "auto", "auto ", "auto x", "auto 1 2", "auto +1", " auto 1", "auto 18446744073709551616"]
    {
        assert_eq!(manual(cookie).watch_cookie(), None, "{cookie:?}");
    }
    let client = watcher("192.0.2.21:0/3029 client.4485 cookie=7");
    assert!(manual("my lock").is_alive(&[client]));
    assert!(!manual("my lock").is_alive(&[]));
}

#[test]
fn an_owner_is_named_by_its_address() {
    let owner = LockOwner::new(LockMode::Exclusive, "192.0.2.21:0/3029");
    assert_eq!(owner.address(), Some("192.0.2.21:0/3029".parse().unwrap()));
    assert_eq!(owner.to_string(), "192.0.2.21:0/3029");
    assert_eq!(LockOwner::new(LockMode::Other(2), "somebody").address(), None);
}

#[cfg(feature = "serde")]
#[test]
fn watchers_and_lockers_are_serialised_with_the_keys_of_rbd() {
    let mut listed = watcher("192.0.2.10:0/7 client.4235 cookie=18446462598732840961");
    listed.timeout = Some(std::time::Duration::from_secs(30));
    assert_eq!(
        serde_json::to_string(&listed).unwrap(),
        r#"{"address":"192.0.2.10:0/7","client":4235,"cookie":18446462598732840961,"kind":"kernel","timeout_seconds":30}"#
    );
    let locker = Locker::new("client.4485", "auto 1", "192.0.2.21:0/3029".parse().unwrap());
    assert_eq!(
        serde_json::to_string(&locker).unwrap(),
        r#"{"locker":"client.4485","id":"auto 1","address":"192.0.2.21:0/3029"}"#
    );
    let owner = LockOwner::new(LockMode::Shared, "192.0.2.21:0/3029");
    assert_eq!(serde_json::to_string(&owner).unwrap(), r#"{"mode":"shared","owner":"192.0.2.21:0/3029"}"#);
}

proptest! {
    #[test]
    fn every_watcher_is_read_as_it_was_written(nonce in any::<u32>(), client in any::<u64>(), cookie in any::<u64>(), ip in any::<std::net::IpAddr>()) {
        let watcher = Watcher::new(rbd::EntityAddress::new(ip, 0, nonce), client, cookie);
        prop_assert_eq!(watcher.to_string().parse::<Watcher>().unwrap(), watcher);
    }

    #[test]
    fn no_text_makes_a_watcher_panic(text in any::<String>(), near in "(watcher=)?[0-9.:/\\[\\]]{0,20} client.[0-9]{0,3} cookie=[0-9]{0,22}") {
        let _ = text.parse::<Watcher>();
        let _ = near.parse::<Watcher>();
        let _ = parse_client_id(&text);
        let _ = Locker::new("client.1", text, "-".parse().unwrap()).watch_cookie();
    }
}
