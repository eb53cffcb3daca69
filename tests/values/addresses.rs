//! Entity addresses and the spellings of `mon_host`.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use rbd::address::{EntityAddress, MonitorAddresses, Protocol};
use rbd::{Error, ErrorKind};

fn address(text: &str) -> EntityAddress {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn monitors(text: &str) -> MonitorAddresses {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn chosen(monitors: &MonitorAddresses, protocol: Protocol) -> Vec<String> {
    monitors.for_protocol(protocol).unwrap().iter().map(SocketAddr::to_string).collect()
}

#[test]
fn an_address_is_an_ip_a_port_and_a_nonce() {
    let client = address("192.0.2.10:0/2359070641");
    assert_eq!(client.ip(), "192.0.2.10".parse::<IpAddr>().unwrap());
    assert_eq!((client.port(), client.nonce(), client.protocol()), (0, 2_359_070_641, None));
    assert_eq!(client.to_string(), "192.0.2.10:0/2359070641");
    assert_eq!(address("192.0.2.10:6800/0").port(), 6800);
}

#[test]
fn what_is_left_out_is_zero() {
    assert_eq!(address("192.0.2.1"), address("192.0.2.1:0/0"));
    assert_eq!(address("192.0.2.1:3300"), address("192.0.2.1:3300/0"));
    assert_eq!(address("192.0.2.1/7"), address("192.0.2.1:0/7"));
    assert_eq!(address("[2001:db8::1]"), address("[2001:db8::1]:0/0"));
}

#[test]
fn two_spellings_of_one_ipv6_address_are_equal() {
    let short = address("[2001:db8::1]:0/3012034728");
    assert_eq!(short, address("[2001:db8:0:0:0:0:0:1]:0/3012034728"));
    assert_eq!(short, address("[2001:0DB8::0001]:0/3012034728"));
    assert_eq!(short.to_string(), "[2001:db8::1]:0/3012034728");
    assert_ne!(short, address("[2001:db8::1]:0/3012034729"));
}

#[test]
fn ipv6_with_a_port_but_without_brackets_is_ambiguous() {
    for text in ["2001:db8::12:3300", "v2:2001:db8::12:3300/0", "1:2:3:4:5:6:7:8:6789", "::1:1", "2001:db8::12:99999"] {
        let error = text.parse::<EntityAddress>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("ambiguous: IPv6 with a port needs brackets"), "{error}");
    }
    assert_eq!(address("[2001:db8::12]:3300").port(), 3300);
}

#[test]
fn ipv6_without_brackets_is_taken_where_no_part_can_be_a_port() {
    // Ceph takes these too.
    assert_eq!(address("2001:db8::12"), address("[2001:db8::12]"));
    assert_eq!(address("::1/7"), address("[::1]:0/7"));
    assert_eq!(address("2001:db8::a:b"), address("[2001:db8::a:b]"));
    assert_eq!(address("1:2:3:4:5:6:7:8"), address("[1:2:3:4:5:6:7:8]"));
}

#[test]
fn a_prefix_says_the_protocol() {
    assert_eq!(address("v1:192.0.2.1:6789/0").protocol(), Some(Protocol::V1));
    assert_eq!(address("v2:192.0.2.1:3300/0").protocol(), Some(Protocol::V2));
    assert_eq!(address("v2:[2001:db8::1]:3300/0").to_string(), "v2:[2001:db8::1]:3300/0");
    // Ceph leaves `any:` out when it prints an address.
    assert_eq!(address("any:192.0.2.1:3300/0"), address("192.0.2.1:3300/0"));
}

#[test]
fn the_same_endpoint_is_so_whatever_the_prefix() {
    let plain = address("192.0.2.1:0/7");
    assert_ne!(plain, address("v1:192.0.2.1:0/7"));
    assert!(plain.same_endpoint(&address("v1:192.0.2.1:0/7")));
    assert!(!plain.same_endpoint(&address("192.0.2.1:0/8")));
    assert!(!plain.same_endpoint(&address("192.0.2.1:1/7")));
    assert!(!plain.same_endpoint(&address("192.0.2.2:0/7")));
}

#[test]
fn no_address_is_blank() {
    for text in ["-", ":/0", "0.0.0.0:0/0", "[::]:0/0", "v1:0.0.0.0:0/0"] {
        assert!(address(text).is_blank(), "{text}");
    }
    for text in [":/7", "0.0.0.0:1/0", "0.0.0.1:0/0", "[::1]:0/0"] {
        assert!(!address(text).is_blank(), "{text}");
    }
    assert_eq!(address("-"), EntityAddress::BLANK);
    assert_eq!(EntityAddress::BLANK.to_string(), "-");
}

#[test]
fn what_is_no_address_is_an_error() {
    for text in [
        "",
        " ",
        ":",
        "/",
        ":/",
        ":/x",
        ":0/0",
        "v1:",
        "v3:192.0.2.1:0/0",
        "192.0.2.1:",
        "192.0.2.1:0/",
        "192.0.2.1:0/x",
        "192.0.2.1:0/-1",
        "192.0.2.1:0/4294967296",
        "192.0.2.1:0/1/2",
        "192.0.2.1:65536/0",
        "192.0.2.1:+1/0",
        "192.0.2.1:0/0 ",
        " 192.0.2.1:0/0",
        "192.0.2.1:0/0\n",
        "192.0.2.1:0:0/0",
        "192.0.2.0/24:0",
        "192.0.2:0/0",
        "256.0.2.1:0/0",
        "010.0.2.1:0/0",
        "[2001:db8::1",
        "2001:db8::1]:0/0",
        "[2001:db8::1]0/0",
        "[2001:db8::1]:/0",
        "[]:0/0",
        "[[::1]]:0/0",
        "[fe80::1%eth0]:0/7",
        "fe80::1%2",
        "mon-a:6789",
        "-1",
        "--",
    ] {
        let error = text.parse::<EntityAddress>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
    }
}

#[test]
fn an_error_says_what_is_wrong_with_an_address() {
    let text = |address: &str| address.parse::<EntityAddress>().unwrap_err().to_string();
    assert_eq!(
        text("192.0.2.1:65536/0"),
        r#"parse address "192.0.2.1:65536/0": invalid argument; the port is a number up to 65535"#
    );
    assert!(text("192.0.2.1:0/4294967296").ends_with("the nonce is a number up to 4294967295"));
    assert!(text("[fe80::1%eth0]:0/7").ends_with("an IPv6 zone (%) cannot be part of an address in Ceph"));
    assert!(text("one").ends_with("an address is IP:PORT/NONCE, with IPv6 in brackets"));
    assert!(text(&"x".repeat(4096)).len() < 200);
}

#[test]
fn a_blocklist_entry_is_the_whole_address() {
    // Not the IP address alone, and no range: the nonce is what names one client.
    assert_eq!(address("192.0.2.6:0/827085682").to_string(), "192.0.2.6:0/827085682");
    assert_eq!(address("[2001:db8::1]:0/827085682").to_string(), "[2001:db8::1]:0/827085682");
}

#[test]
fn a_monitor_in_brackets_has_an_address_for_each_protocol() {
    let both = monitors("[v2:192.0.2.102:3300/0,v1:192.0.2.102:6789/0]");
    assert_eq!(both.monitors().len(), 1);
    assert_eq!(chosen(&both, Protocol::V1), ["192.0.2.102:6789"]);
    assert_eq!(chosen(&both, Protocol::V2), ["192.0.2.102:3300"]);
}

#[test]
fn white_space_separates_monitors() {
    let two = monitors("[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0] [v2:192.0.2.2:3300/0,v1:192.0.2.2:6789/0]");
    assert_eq!(two.monitors().len(), 2);
    assert_eq!(chosen(&two, Protocol::V1), ["192.0.2.1:6789", "192.0.2.2:6789"]);
    assert_eq!(chosen(&two, Protocol::V2), ["192.0.2.1:3300", "192.0.2.2:3300"]);
    assert_eq!(monitors("192.0.2.1\n\t192.0.2.2\n").monitors().len(), 2);
}

#[test]
fn commas_and_semicolons_separate_monitors() {
    let bare = monitors("192.0.2.1,192.0.2.2");
    assert_eq!(chosen(&bare, Protocol::V1), ["192.0.2.1:6789", "192.0.2.2:6789"]);
    assert_eq!(chosen(&bare, Protocol::V2), ["192.0.2.1:3300", "192.0.2.2:3300"]);

    let mixed = monitors("192.0.2.1:6789; 192.0.2.2");
    assert_eq!(mixed.monitors().len(), 2);
    assert_eq!(chosen(&mixed, Protocol::V1), ["192.0.2.1:6789", "192.0.2.2:6789"]);
    assert_eq!(chosen(&mixed, Protocol::V2), ["192.0.2.2:3300"]);

    assert_eq!(monitors(" , 192.0.2.1 ,; 192.0.2.2, "), bare);
}

#[test]
fn brackets_may_hold_ipv6_or_a_list_of_it() {
    let two = monitors("[v2:[2001:db8::1]:3300/0,v1:[2001:db8::1]:6789/0],[2001:db8::2]:6789");
    assert_eq!(two.monitors().map(<[_]>::len).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(chosen(&two, Protocol::V1), ["[2001:db8::1]:6789", "[2001:db8::2]:6789"]);
    assert_eq!(chosen(&two, Protocol::V2), ["[2001:db8::1]:3300"]);

    assert_eq!(chosen(&monitors("[2001:db8::1]"), Protocol::V2), ["[2001:db8::1]:3300"]);
    assert_eq!(chosen(&monitors("2001:db8::1"), Protocol::V2), ["[2001:db8::1]:3300"]);
    assert_eq!(chosen(&monitors("[[2001:db8::1]:6789]"), Protocol::V1), ["[2001:db8::1]:6789"]);
    assert_eq!(chosen(&monitors("[192.0.2.1:6789]"), Protocol::V1), ["192.0.2.1:6789"]);
    assert_eq!(chosen(&monitors("[192.0.2.1]:6789"), Protocol::V1), ["192.0.2.1:6789"]);
}

#[test]
fn other_ports_than_the_default_ones_stay() {
    let prefixed = monitors("[v2:192.0.2.9:40741,v1:192.0.2.9:40742]");
    assert_eq!(chosen(&prefixed, Protocol::V1), ["192.0.2.9:40742"]);
    assert_eq!(chosen(&prefixed, Protocol::V2), ["192.0.2.9:40741"]);
    // Ceph tries both protocols at such a port.
    let plain = monitors("192.0.2.9:40741");
    assert_eq!(chosen(&plain, Protocol::V1), ["192.0.2.9:40741"]);
    assert_eq!(chosen(&plain, Protocol::V2), ["192.0.2.9:40741"]);
}

#[test]
fn a_prefix_without_a_port_has_the_default_port() {
    let prefixed = monitors("v1:192.0.2.1 v2:192.0.2.2 v1:192.0.2.3:3300");
    assert_eq!(chosen(&prefixed, Protocol::V1), ["192.0.2.1:6789", "192.0.2.3:3300"]);
    assert_eq!(chosen(&prefixed, Protocol::V2), ["192.0.2.2:3300"]);
}

#[test]
fn no_address_for_a_protocol_is_an_error() {
    for (mon_host, protocol) in [
        ("[v2:192.0.2.15:3300]", Protocol::V1),
        ("192.0.2.15:3300", Protocol::V1),
        ("v1:192.0.2.15", Protocol::V2),
        ("192.0.2.15:6789", Protocol::V2),
        ("0.0.0.0", Protocol::V2),
    ] {
        let error = monitors(mon_host).for_protocol(protocol).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.hint().unwrap().starts_with(&format!("no monitor has an address that speaks {protocol}")));
    }
    assert!(MonitorAddresses::new([]).for_protocol(Protocol::V1).is_err());
}

#[test]
fn a_host_name_is_an_error_that_names_it() {
    for mon_host in ["mon-a.example", "192.0.2.1, mon-a.example:6789", "[v2:mon-a.example:3300/0,v1:192.0.2.1]"] {
        let error = mon_host.parse::<MonitorAddresses>().unwrap_err();
        assert_eq!(error.object(), Some("mon-a.example"), "{mon_host}");
        assert_eq!(error.hint(), Some("a host name: resolve it first, only IP addresses can be used"));
    }
}

#[test]
fn what_is_no_mon_host_is_an_error() {
    for text in [
        "",
        " ,; ",
        "[]",
        "[ , ]",
        "[v2:192.0.2.1:3300/0",
        "v2:192.0.2.1:3300/0]",
        "[v2:192.0.2.1:3300/0]]",
        "[[v2:192.0.2.1:3300/0]]",
        "192.0.2.1:3300:1",
        "192.0.2.1:99999",
        "2001:db8::12:3300",
        "[2001:db8::12:3300",
        "192.0.2.1/x",
    ] {
        assert_eq!(
            text.parse::<MonitorAddresses>().map_err(|e: Error| e.kind()),
            Err(ErrorKind::InvalidInput),
            "{text}"
        );
    }
}

#[test]
fn monitors_of_a_monmap_are_taken_as_they_are() {
    let vectors =
        [vec![address("v2:192.0.2.1:3300/0"), address("v1:192.0.2.1:6789/0")], vec![], vec![address("192.0.2.2")]];
    let monmap = MonitorAddresses::new(vectors);
    assert_eq!(monmap.monitors().len(), 2);
    assert_eq!(monmap, monitors("[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0],192.0.2.2"));
    assert_eq!(monmap.to_string(), "[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0],192.0.2.2:0/0");
}

#[cfg(feature = "serde")]
#[test]
fn an_address_is_serialised_as_its_text() {
    assert_eq!(serde_json::to_string(&address("[2001:db8::1]:0/7")).unwrap(), r#""[2001:db8::1]:0/7""#);
    let written = serde_json::to_value(monitors("[v2:192.0.2.1:3300,v1:192.0.2.1:6789] 192.0.2.2")).unwrap();
    assert_eq!(written[0], serde_json::json!(["v2:192.0.2.1:3300/0", "v1:192.0.2.1:6789/0"]));
    assert_eq!(serde_json::to_string(&Protocol::V2).unwrap(), r#""v2""#);
}

fn any_address() -> impl Strategy<Value = EntityAddress> {
    (any::<IpAddr>(), any::<u16>(), any::<u32>(), 0..3).prop_map(|(ip, port, nonce, protocol)| {
        let address = EntityAddress::new(ip, port, nonce);
        match protocol {
            0 => address,
            1 => address.with_protocol(Protocol::V1),
            _ => address.with_protocol(Protocol::V2),
        }
    })
}

proptest! {
    #[test]
    fn every_address_is_read_as_it_was_written(address in any_address()) {
        prop_assert_eq!(address.to_string().parse::<EntityAddress>().unwrap(), address);
    }

    #[test]
    fn every_list_of_monitors_is_read_as_it_was_written(
        vectors in prop::collection::vec(prop::collection::vec(any_address(), 1..4), 1..5)
    ) {
        let monitors = MonitorAddresses::new(vectors);
        prop_assert_eq!(monitors.to_string().parse::<MonitorAddresses>().unwrap(), monitors);
    }

    #[test]
    fn no_text_makes_an_address_panic(text in any::<String>(), near in "(v1:|v2:|any:)?[0-9a-f:.\\[\\]/%-]{0,40}") {
        let _ = text.parse::<EntityAddress>();
        let _ = text.parse::<MonitorAddresses>();
        if let Ok(address) = near.parse::<EntityAddress>() {
            prop_assert_eq!(address.to_string().parse::<EntityAddress>().unwrap(), address);
        }
    }

    #[test]
    fn no_text_makes_mon_host_panic(text in "[v12:0-9.,;\\[\\]/ ]{0,60}") {
        if let Ok(monitors) = text.parse::<MonitorAddresses>() {
            prop_assert!(monitors.monitors().all(|addresses| !addresses.is_empty()));
            let _ = monitors.for_protocol(Protocol::V1);
            let _ = monitors.for_protocol(Protocol::V2);
        }
    }
}
