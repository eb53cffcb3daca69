//! Names, image specs, ids, prefixes and header objects.

use proptest::prelude::*;
use rbd::name::NameError;
use rbd::{
    BlockNamePrefix, Details, Error, ErrorKind, HeaderObject, ImageId, ImageName, ImageSpec, NamespaceName, PoolName,
    RawName, SnapshotName,
};

fn fault<T: std::fmt::Debug>(result: Result<T, Error>) -> NameError {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
    match error.details() {
        Details::Name(fault) => fault.clone(),
        other => panic!("{other:?}"),
    }
}

fn spec(text: &str) -> ImageSpec {
    text.parse().unwrap()
}

#[test]
fn what_librbd_allows_is_a_name() {
    for name in ["pvc-1", "my disk", "img[1]*", "ä", "-", ".", "a,exclusive", "line\nbreak", "\u{2028}", "'; rm"] {
        assert_eq!(PoolName::new(name).unwrap().as_str(), name);
        assert_eq!(NamespaceName::new(name).unwrap().as_str(), name);
        assert_eq!(ImageName::new(name).unwrap().as_str(), name);
        assert_eq!(SnapshotName::new(name).unwrap().as_str(), name);
    }
}

#[test]
fn a_nul_or_nothing_is_no_name() {
    assert_eq!(fault(PoolName::new("")), NameError::Empty);
    assert_eq!(fault(NamespaceName::new("")), NameError::Empty);
    assert_eq!(fault(ImageName::new("")), NameError::Empty);
    assert_eq!(fault(SnapshotName::new("")), NameError::Empty);
    assert_eq!(fault(PoolName::new("a\0b")), NameError::Contains('\0'));
    assert_eq!(fault(NamespaceName::new("a\0b")), NameError::Contains('\0'));
    assert_eq!(fault(ImageName::new("a\0b")), NameError::Contains('\0'));
    assert_eq!(fault(SnapshotName::new("a\0b")), NameError::Contains('\0'));
    assert_eq!(fault(ImageId::new("a\0b")), NameError::Contains('\0'));
}

#[test]
fn what_a_spec_could_not_express_is_no_name() {
    for c in ['/', '@'] {
        let name = format!("a{c}b");
        assert_eq!(fault(NamespaceName::new(name.as_str())), NameError::Contains(c));
        assert_eq!(fault(ImageName::new(name.as_str())), NameError::Contains(c));
        assert_eq!(fault(SnapshotName::new(name)), NameError::Contains(c));
    }
    assert_eq!(fault(PoolName::new("a/b")), NameError::Contains('/'));
    // The rbd program takes what stands before the first slash for the pool, whatever it is.
    let in_odd_pool = spec("a@b/image@snap");
    assert_eq!(in_odd_pool.pool().unwrap().as_str(), "a@b");
    assert_eq!(in_odd_pool.snapshot().unwrap().as_str(), "snap");
}

#[test]
fn a_name_is_as_long_as_the_objects_named_after_it_allow() {
    assert!(ImageName::new("a".repeat(2041)).is_ok());
    assert_eq!(fault(ImageName::new("a".repeat(2042))), NameError::TooLong { length: 2042, limit: 2041 });
    assert_eq!(fault(ImageName::new("a".repeat(4096))), NameError::TooLong { length: 4096, limit: 2041 });
    // The limit counts bytes.
    assert_eq!(fault(ImageName::new("ä".repeat(1021))), NameError::TooLong { length: 2042, limit: 2041 });
    assert!(NamespaceName::new("a".repeat(256)).is_ok());
    assert_eq!(fault(NamespaceName::new("a".repeat(257))), NameError::TooLong { length: 257, limit: 256 });
    // No object is named after a pool or a snapshot.
    assert!(PoolName::new("a".repeat(4096)).is_ok());
    assert!(SnapshotName::new("a".repeat(4096)).is_ok());
}

#[test]
fn an_error_shows_the_name_escaped_and_short() {
    let error = ImageName::new("a\0b").unwrap_err();
    assert_eq!(error.to_string(), r#"check image name "a\0b": invalid name: it contains '\0'"#);
    let error = ImageName::new("ä".repeat(4096)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("check image name \"{}\"…: invalid name: it has 8192 bytes and 2041 is the limit", "ä".repeat(64))
    );
    let error = "pool//image".parse::<ImageSpec>().unwrap_err();
    assert_eq!(error.to_string(), r#"check namespace name of image spec "pool//image": invalid name: it is empty"#);
}

#[test]
fn the_kernel_is_not_given_what_it_would_split() {
    // The kernel would map the image "my" at the snapshot "disk".
    let error = ImageName::new("my disk").unwrap().check_for_kernel().unwrap_err();
    assert_eq!(error.to_string(), r#"pass to the kernel the image name "my disk": invalid name: it contains ' '"#);
    for c in [' ', '\t', '\n', '\r', '\x0b', '\x0c', '\x01', '\x7f', '\u{85}'] {
        let name = format!("a{c}b");
        assert_eq!(fault(PoolName::new(name.as_str()).unwrap().check_for_kernel()), NameError::Contains(c));
        assert_eq!(fault(NamespaceName::new(name.as_str()).unwrap().check_for_kernel()), NameError::Contains(c));
        assert_eq!(fault(ImageName::new(name.as_str()).unwrap().check_for_kernel()), NameError::Contains(c));
        assert_eq!(fault(SnapshotName::new(name).unwrap().check_for_kernel()), NameError::Contains(c));
    }
}

#[test]
fn the_kernel_takes_any_other_name() {
    // It splits at ASCII white space only.
    for name in ["img[1]*", "a,b", "a=b", "ä", "a\u{a0}b", "-x", &"a".repeat(97)] {
        PoolName::new(name).unwrap().check_for_kernel().unwrap();
        ImageName::new(name).unwrap().check_for_kernel().unwrap();
        SnapshotName::new(name).unwrap().check_for_kernel().unwrap();
    }
    NamespaceName::new("a=b").unwrap().check_for_kernel().unwrap();
}

#[test]
fn a_namespace_cannot_smuggle_an_option_into_the_kernel() {
    assert_eq!(fault(NamespaceName::new("a,exclusive").unwrap().check_for_kernel()), NameError::Contains(','));
    assert_eq!(fault(spec("pool/a,exclusive/image").check_for_kernel()), NameError::Contains(','));
}

#[test]
fn the_kernel_has_limits_of_its_own() {
    SnapshotName::new("a".repeat(250)).unwrap().check_for_kernel().unwrap();
    let long = SnapshotName::new("a".repeat(251)).unwrap();
    assert_eq!(fault(long.check_for_kernel()), NameError::TooLong { length: 251, limit: 250 });
    assert_eq!(fault(SnapshotName::new("-").unwrap().check_for_kernel()), NameError::MeansNoSnapshot);
    ImageName::new("-").unwrap().check_for_kernel().unwrap();
    let long = PoolName::new("a".repeat(4097)).unwrap();
    assert_eq!(fault(long.check_for_kernel()), NameError::TooLong { length: 4097, limit: 4096 });
}

#[test]
fn a_spec_is_checked_for_the_kernel_in_all_its_parts() {
    spec("pool/ns/image@snap").check_for_kernel().unwrap();
    spec("image").check_for_kernel().unwrap();
    for (text, part) in [
        ("p p/ns/image@snap", "pool"),
        ("pool/n s/image@snap", "namespace"),
        ("pool/ns/im age@snap", "image"),
        ("pool/ns/image@sn ap", "snapshot"),
    ] {
        let error = spec(text).check_for_kernel().unwrap_err();
        assert_eq!(error.operation(), format!("pass to the kernel the {part} name"));
    }
}

#[test]
fn a_spec_is_read_by_its_slashes_and_its_at() {
    let full = spec("kube/tenant/pvc-1@before");
    assert_eq!(full.pool().map(PoolName::as_str), Some("kube"));
    assert_eq!(full.namespace().map(NamespaceName::as_str), Some("tenant"));
    assert_eq!(full.image().as_str(), "pvc-1");
    assert_eq!(full.snapshot().map(SnapshotName::as_str), Some("before"));

    let bare = spec("pvc-1");
    assert_eq!((bare.pool(), bare.namespace(), bare.snapshot()), (None, None, None));

    let built = ImageSpec::new(ImageName::new("pvc-1").unwrap())
        .in_namespace(PoolName::new("kube").unwrap(), NamespaceName::new("tenant").unwrap())
        .at_snapshot(SnapshotName::new("before").unwrap());
    assert_eq!(built, full);
}

#[test]
fn a_default_pool_fills_only_a_gap() {
    let default = PoolName::new("rbd").unwrap();
    assert_eq!(spec("image@snap").with_default_pool(&default), spec("rbd/image@snap"));
    assert_eq!(spec("kube/ns/image").with_default_pool(&default), spec("kube/ns/image"));
}

#[test]
fn a_spec_with_a_part_missing_or_too_many_is_an_error() {
    for text in ["", "/", "/image", "pool/", "pool//image", "@snap", "pool/@snap", "image@", "pool/image@"] {
        assert_eq!(fault(text.parse::<ImageSpec>()), NameError::Empty, "{text}");
    }
    assert_eq!(fault("pool/ns/image/x".parse::<ImageSpec>()), NameError::Contains('/'));
    assert_eq!(fault("pool/ns/image@a/b".parse::<ImageSpec>()), NameError::Contains('/'));
    assert_eq!(fault("pool/image@a@b".parse::<ImageSpec>()), NameError::Contains('@'));
    assert_eq!(fault("pool/n@s/image".parse::<ImageSpec>()), NameError::Contains('@'));
}

#[test]
fn a_listing_holds_names_that_are_no_utf8() {
    let raw = RawName::from(&b"bad\xff\x80name"[..]);
    assert_eq!(raw.as_bytes(), b"bad\xff\x80name");
    assert_eq!(raw.to_str(), None);
    assert_eq!(raw.to_string(), r"bad\xff\x80name");
    assert_eq!(fault(ImageName::try_from(&raw)), NameError::NotUtf8);
    assert_eq!(
        ImageName::try_from(&raw).unwrap_err().to_string(),
        r"check image name bad\xff\x80name: invalid name: it is not UTF-8"
    );

    assert_eq!(ImageName::try_from(&RawName::from("pvc-1")).unwrap().as_str(), "pvc-1");
    // librbd lets a program make such an image.
    assert_eq!(fault(ImageName::try_from(&RawName::from("a/b"))), NameError::Contains('/'));
}

#[test]
fn two_raw_names_never_look_the_same() {
    assert_eq!(RawName::from(r"bad\xff").to_string(), r"bad\\xff");
    assert_eq!(RawName::from(&b"bad\xff"[..]).to_string(), r"bad\xff");
    assert_eq!(RawName::from("line\nbreak\u{85}").to_string(), r"line\x0abreak\xc2\x85");
    assert_eq!(RawName::from("my disk ä").to_string(), "my disk ä");
}

#[test]
fn the_header_of_an_image_with_a_data_pool_leaves_the_pool_out() {
    let name = ImageName::new("any").unwrap();
    let prefix: BlockNamePrefix = "rbd_data.14.f561643c9869".parse().unwrap();
    assert_eq!(prefix.format(), 2);
    assert_eq!(prefix.pool_id(), Some(14));
    assert_eq!(prefix.image_id().map(ImageId::as_str), Some("f561643c9869"));
    assert_eq!(prefix.header_object(&name).as_str(), "rbd_header.f561643c9869");

    let prefix: BlockNamePrefix = "rbd_data.fa7b2ae8944a".parse().unwrap();
    assert_eq!(prefix.pool_id(), None);
    assert_eq!(prefix.header_object(&name).as_str(), "rbd_header.fa7b2ae8944a");
}

#[test]
fn the_header_of_an_image_of_format_1_is_found_by_its_name() {
    let prefix: BlockNamePrefix = "rb.0.11895f.6b8b4567".parse().unwrap();
    assert_eq!((prefix.format(), prefix.image_id(), prefix.pool_id()), (1, None, None));
    assert_eq!(prefix.header_object(&ImageName::new("db-1").unwrap()).as_str(), "db-1.rbd");
    assert_eq!(HeaderObject::of_format_1(&ImageName::new("db-1").unwrap()).to_string(), "db-1.rbd");
}

#[test]
fn what_is_no_prefix_is_an_error() {
    for text in [
        "",
        "rbd_data",
        "rbd_data.",
        "rbd_data..",
        "rbd_data.14.",
        "rbd_data..f561643c9869",
        "rbd_data.x.f561643c9869",
        "rbd_data.-1.f561643c9869",
        "rbd_data.+1.f561643c9869",
        "rbd_data.014.f561643c9869",
        "rbd_data.9223372036854775808.f561643c9869",
        "rbd_data.14.15.f561643c9869",
        "rbd_data.f561643c9869 ",
        "rbd_data.a/b",
        "rbd_data.f561643c9869\n",
        "rbd_header.f561643c9869",
        "rb.0",
        "rb..",
        "rb.0.x.6b8b4567",
        "rb.0.1.2.3",
        "RBD_DATA.f561643c9869",
    ] {
        let error = text.parse::<BlockNamePrefix>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
    }
}

#[test]
fn an_empty_id_is_no_id() {
    // The kernel's `image_id` of an image of format 1 is empty: two such images must not look like one.
    assert_eq!(fault(ImageId::new("")), NameError::Empty);
    for c in ['.', '/', '@', ' ', '\n', 'ä'] {
        assert_eq!(fault(ImageId::new(format!("a{c}"))), NameError::Contains(c));
    }
    assert_eq!(fault(ImageId::new("a".repeat(4096))), NameError::TooLong { length: 4096, limit: 2037 });
}

#[cfg(feature = "serde")]
#[test]
fn names_and_specs_are_checked_when_they_are_deserialised() {
    let text = serde_json::to_string(&spec("kube/ns/pvc-1@s")).unwrap();
    assert_eq!(text, r#""kube/ns/pvc-1@s""#);
    assert_eq!(serde_json::from_str::<ImageSpec>(&text).unwrap(), spec("kube/ns/pvc-1@s"));
    assert_eq!(serde_json::from_str::<ImageName>(r#""my disk""#).unwrap(), ImageName::new("my disk").unwrap());
    assert!(serde_json::from_str::<ImageName>(r#""a/b""#).is_err());
    assert!(serde_json::from_str::<ImageSpec>(r#""a//b""#).is_err());
    assert_eq!(serde_json::to_string(&RawName::from(r"a\b")).unwrap(), r#""a\\b""#);
    assert_eq!(serde_json::to_string(&RawName::from(&b"a\xff"[..])).unwrap(), r#""a\\xff""#);
    let header = HeaderObject::of_id(&ImageId::new("f561643c9869").unwrap());
    assert_eq!(serde_json::to_string(&header).unwrap(), r#""rbd_header.f561643c9869""#);
}

fn pool_name() -> impl Strategy<Value = PoolName> {
    "[^/\0]{1,20}".prop_map(|name| PoolName::new(name).unwrap())
}

fn name<T: TryFrom<String, Error = Error> + std::fmt::Debug>() -> impl Strategy<Value = T> {
    "[^/@\0]{1,20}".prop_map(|name| T::try_from(name).unwrap())
}

fn any_spec() -> impl Strategy<Value = ImageSpec> {
    let location = prop::option::of((pool_name(), prop::option::of(name::<NamespaceName>())));
    (location, name(), prop::option::of(name())).prop_map(|(location, image, snapshot)| {
        let spec = ImageSpec::new(image);
        let spec = match location {
            Some((pool, Some(namespace))) => spec.in_namespace(pool, namespace),
            Some((pool, None)) => spec.in_pool(pool),
            None => spec,
        };
        match snapshot {
            Some(snapshot) => spec.at_snapshot(snapshot),
            None => spec,
        }
    })
}

fn any_prefix() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9a-f]{1,20}".prop_map(|id| format!("rbd_data.{id}")),
        (0..=i64::MAX, "[0-9a-f]{1,20}").prop_map(|(pool, id)| format!("rbd_data.{pool}.{id}")),
        "[0-9a-f]{1,4}\\.[0-9a-f]{1,16}\\.[0-9a-f]{1,8}".prop_map(|rest| format!("rb.{rest}")),
    ]
}

proptest! {
    #[test]
    fn every_spec_is_read_as_it_was_written(spec in any_spec()) {
        prop_assert_eq!(spec.to_string().parse::<ImageSpec>().unwrap(), spec);
    }

    #[test]
    fn every_text_that_is_a_spec_is_written_as_it_was_read(text in "[a-c/@]{0,12}") {
        if let Ok(spec) = text.parse::<ImageSpec>() {
            prop_assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn every_prefix_is_written_as_it_was_read(text in any_prefix()) {
        prop_assert_eq!(text.parse::<BlockNamePrefix>().unwrap().to_string(), text);
    }

    #[test]
    fn no_text_makes_a_name_panic(text in any::<String>()) {
        let _ = PoolName::new(text.as_str()).map(|name| name.check_for_kernel());
        let _ = NamespaceName::new(text.as_str()).map(|name| name.check_for_kernel());
        let _ = SnapshotName::new(text.as_str()).map(|name| name.check_for_kernel());
        let _ = text.parse::<ImageSpec>().map(|spec| spec.check_for_kernel());
        let _ = text.parse::<ImageId>();
    }

    #[test]
    fn no_text_makes_a_prefix_panic(text in "(rbd_data\\.|rb\\.)?[0-9a-fx./\u{e4}]{0,30}") {
        if let Ok(prefix) = text.parse::<BlockNamePrefix>() {
            prop_assert_eq!(prefix.to_string(), text);
        }
    }

    #[test]
    fn a_name_that_the_kernel_is_given_stays_one_word(spec in any_spec()) {
        if spec.check_for_kernel().is_ok() {
            let text = spec.to_string();
            prop_assert_eq!(text.split([' ', '\x0c', '\n', '\r', '\t', '\x0b']).count(), 1);
        }
    }

    #[test]
    fn no_byte_of_a_raw_name_is_lost_in_its_text(bytes in raw_bytes()) {
        let text = RawName::from(bytes.as_slice()).to_string();
        prop_assert!(!text.chars().any(char::is_control));
        prop_assert_eq!(unescape(&text), bytes);
    }
}

fn raw_bytes() -> impl Strategy<Value = Vec<u8>> {
    let telling = prop::sample::select(&b"\\xff0a\n\xff\xc3\xa4\xe2\x80\xa8\xf0"[..]);
    prop::collection::vec(prop_oneof![telling, any::<u8>()], 0..12)
}

/// The bytes behind the text of a raw name.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (byte, taken) = match rest.get(..2) {
            Some("\\x") => (u8::from_str_radix(&rest[2..4], 16).ok(), 4),
            Some("\\\\") => (Some(b'\\'), 2),
            _ => (None, first.len_utf8()),
        };
        match byte {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(&rest.as_bytes()[..taken]),
        }
        rest = &rest[taken..];
    }
    bytes
}
