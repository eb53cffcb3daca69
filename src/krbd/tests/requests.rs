use proptest::prelude::*;

use super::add_string::{AddString, KeyWord};
use super::*;
use crate::secret::Secret;

const NEW_KERNEL: Option<(u32, u32)> = Some((6, 1));
const SECRET: &str = "AQBRHFNlAAAAABAAo9K/oNuuDNdSqbRnkTIWhw==";

/// The string without the mark at its end.
fn text_for(request: &MapRequest, key: &KeyWord<'_>, kernel: Option<(u32, u32)>) -> Result<String> {
    let origin = Origin::here(Path::new("/proc")).unwrap();
    let text = AddString::new(request, kernel)?.with_key(key, &origin)?;
    Ok(text.strip_suffix(&format!(" {origin}")).unwrap().to_owned())
}

fn text(monitors: &str, options: &str, spec: &str) -> Result<String> {
    let credentials = Credentials::new("admin", Secret::new(SECRET));
    let request = MapRequest::new(monitors.parse()?, credentials, spec.parse()?).options(options.parse()?);
    text_for(&request, &KeyWord::Keyring, NEW_KERNEL)
}

#[test]
fn the_string_is_the_one_that_the_rbd_program_writes() {
    assert_eq!(
        text("127.0.0.1:6789", "", "kube/img").unwrap(),
        "127.0.0.1:6789 name=admin,key=client.admin kube img -"
    );
    assert_eq!(
        text("[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0] [2001:db8::2]:6789", "rw,queue_depth=64,crc", "p/n/i@s")
            .unwrap(),
        "192.0.2.1:6789,[2001:db8::2]:6789 name=admin,key=client.admin,crc,queue_depth=64,_pool_ns=n p i s"
    );
}

#[test]
fn the_protocol_decides_which_addresses_the_kernel_gets() {
    let both = "[v2:192.0.2.1:3300,v1:192.0.2.1:6789]";
    let monitors = |monitors: &str, options: &str| {
        text(monitors, options, "p/i").map(|text| text.split_once(" name=").unwrap().0.to_owned())
    };
    assert_eq!(monitors(both, "").unwrap(), "192.0.2.1:6789");
    assert_eq!(monitors(both, "ms_mode=legacy").unwrap(), "192.0.2.1:6789");
    assert_eq!(monitors(both, "ms_mode=secure").unwrap(), "192.0.2.1:3300");
    assert_eq!(monitors("[v2:192.0.2.15:3300]", "ms_mode=secure").unwrap(), "192.0.2.15:3300");
    // Only msgr2 is left, so it is chosen and said.
    let chosen = text("[v2:192.0.2.15:3300]", "", "p/i").unwrap();
    assert_eq!(chosen, "192.0.2.15:3300 name=admin,key=client.admin,ms_mode=prefer-crc p i -");
}

#[test]
fn no_address_for_the_protocol_is_an_error_before_the_kernel_is_touched() {
    let error = text("192.0.2.15:3300", "ms_mode=legacy", "p/i").unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::NoMonitor, Some(Stage::Preflight)));
    let error = text("192.0.2.15:6789", "ms_mode=crc", "p/i").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMonitor);
    assert!(error.to_string().contains("ms_mode=crc"), "{error}");
    // A kernel before 5.11 speaks legacy only.
    let request =
        MapRequest::new("[v2:192.0.2.15:3300]".parse().unwrap(), Credentials::without_key("a"), "p/i".parse().unwrap());
    let error = text_for(&request, &KeyWord::None, Some((5, 10))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMonitor);
}

#[test]
fn what_would_inject_is_refused() {
    for spec in ["p/my disk", "p/a\nb", "p/a\u{b}b", "my pool/a", "p/n,exclusive/a", "p/n s/a", "p/a@s t", "p/a@-"] {
        let error = text("192.0.2.1", "", spec).unwrap_err();
        assert_eq!((error.kind(), error.stage()), (ErrorKind::InvalidName, Some(Stage::Preflight)), "{spec:?}");
    }
    for user in ["", "a,ro", "a b", "a\n"] {
        let credentials = Credentials::without_key(user);
        let request = MapRequest::new("192.0.2.1".parse().unwrap(), credentials, "p/a".parse().unwrap());
        let error = text_for(&request, &KeyWord::None, NEW_KERNEL).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{user:?}");
    }
    for location in ["host:a,ro", "host:a b", "host", "host:", "host:a|", ""] {
        assert!(MapOptions::new().crush_location(location).is_err(), "{location:?}");
    }
}

#[test]
fn odd_names_that_are_legal_are_passed_on() {
    let long = "x".repeat(200);
    for name in ["foo*", "[0.0.0.0]", "?bar", "-x", "img[1]*", "a,b", long.as_str()] {
        let written = text("192.0.2.1", "", &format!("foo*/{name}@?bar")).unwrap();
        assert!(written.ends_with(&format!(" foo* {name} ?bar")), "{written}");
    }
}

#[test]
fn a_request_that_sysfs_would_cut_is_refused() {
    let monitors = vec!["192.0.2.1:6789"; 300].join(",");
    let error = text(&monitors, "", "p/i").unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::InvalidInput, Some(Stage::Preflight)));
}

#[test]
fn a_spec_without_a_pool_is_refused() {
    assert_eq!(text("192.0.2.1", "", "i").unwrap_err().kind(), ErrorKind::InvalidName);
}

#[test]
fn the_secret_is_written_only_in_its_own_word_and_shown_nowhere() {
    let secret: Secret = Secret::new(SECRET);
    let request =
        MapRequest::new("192.0.2.1".parse().unwrap(), Credentials::new("kube", secret.clone()), "p/i".parse().unwrap());
    let written = text_for(&request, &KeyWord::Secret(&secret), NEW_KERNEL).unwrap();
    assert_eq!(written, format!("192.0.2.1:6789 name=kube,secret={SECRET} p i -"));
    assert!(!format!("{request:?}").contains("AQB"), "{request:?}");
}

#[test]
fn options_are_sorted_and_the_last_of_a_key_wins() {
    let options: MapOptions =
        "ro,noshare,osdkeepalive=7,queue_depth=007,rw,osd_idle_ttl=3,crush_location=host:a|rack:b".parse().unwrap();
    assert_eq!(
        options.to_string(),
        "crush_location=host:a|rack:b,osd_idle_ttl=3,osdkeepalive=7,queue_depth=7,rw,noshare"
    );
    assert_eq!(
        " , ro queue_depth=4,,exclusive".parse::<MapOptions>().unwrap().to_string(),
        "exclusive,queue_depth=4,ro"
    );
}

#[test]
fn options_are_refused_in_the_words_of_the_rbd_program() {
    for (text, hint) in [
        ("frobnicate", "unknown map option 'frobnicate'"),
        ("queue_depth", "queue_depth option requires a value"),
        ("queue_depth=", "queue_depth option requires a value"),
        ("queue_depth=0", "invalid queue_depth value '0'"),
        ("queue_depth=-1", "invalid queue_depth value '-1'"),
        ("alloc_size=1000", "invalid alloc_size value '1000'"),
        ("osdkeepalive=0", "invalid osdkeepalive value '0'"),
        ("mount_timeout=2147484", "invalid mount_timeout value '2147484'"),
        ("ms_mode=v2", "invalid ms_mode value 'v2'"),
        ("fsid=x", "invalid fsid value 'x'"),
        ("ip=host", "invalid ip value 'host'"),
        ("exclusive=0", "exclusive option takes no value"),
        ("ro,,ro x", "unknown map option 'ro x'"),
    ] {
        let error = text.parse::<MapOptions>().unwrap_err();
        assert_eq!((error.kind(), error.hint()), (ErrorKind::InvalidInput, Some(hint)));
    }
    let too_fine = MapOptions::new().mount_timeout(Duration::from_millis(1500)).unwrap_err();
    assert_eq!(too_fine.hint(), Some("invalid mount_timeout value '1.5'"));
}

#[test]
fn every_option_survives_its_text() {
    let text = "abort_on_full,alloc_size=65536,nocephx_require_signatures,nocephx_sign_messages,\
                compression_hint=compressible,nocrc,crush_location=rack:r1,exclusive,\
                fsid=11111111-1111-4111-8111-111111111111,ip=[2001:db8::1]:0,lock_on_read,lock_timeout=5,mount_timeout=0,\
                ms_mode=prefer-secure,notrim,osd_idle_ttl=60,osd_request_timeout=30,osdkeepalive=5,queue_depth=128,\
                read_from_replica=localize,ro,rxbounce,noshare,notcp_nodelay,noudev";
    assert_eq!(text.parse::<MapOptions>().unwrap().to_string(), text);
}

#[test]
fn defaults_fill_only_what_is_not_set() {
    let own: MapOptions = "rw,queue_depth=4".parse().unwrap();
    let merged = own.or(&"ro,exclusive,queue_depth=8".parse().unwrap());
    assert_eq!(merged.to_string(), "exclusive,queue_depth=4,rw");
}

proptest! {
    #[test]
    fn no_option_text_makes_the_parser_panic(text: String) {
        let _ = text.parse::<MapOptions>();
    }

    #[test]
    fn whatever_is_accepted_is_five_tokens_and_the_mark(pool: String, image: String, namespace: String, user: String) {
        let Ok(spec) = format!("{pool}/{namespace}/{image}").parse() else { return Ok(()) };
        let request = MapRequest::new("192.0.2.1".parse().unwrap(), Credentials::without_key(&user), spec);
        if let Ok(text) = text_for(&request, &KeyWord::None, NEW_KERNEL) {
            let tokens: Vec<_> = text.split([' ', '\x0c', '\n', '\r', '\t', '\x0b']).collect();
            prop_assert_eq!(tokens.len(), 5);
            prop_assert_eq!(tokens[1].split(',').count(), 2);
        }
    }
}
