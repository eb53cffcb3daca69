//! The values as a user of the library meets them.

use rbd::{BlockNamePrefix, ImageName, ImageSpec, Watcher, WatcherKind};

#[test]
fn a_watcher_line_is_parsed_to_its_parts() {
    let line = "watcher=192.0.2.10:0/2359070641 client.35594571 cookie=18446462598732840969";
    let watcher: Watcher = line.parse().unwrap();
    assert_eq!(watcher.address.ip(), "192.0.2.10".parse::<std::net::IpAddr>().unwrap());
    assert_eq!((watcher.address.port(), watcher.address.nonce()), (0, 2_359_070_641));
    assert_eq!((watcher.client, watcher.cookie), (35_594_571, 0xffff_0000_0000_0009));
    assert_eq!(watcher.kind(), WatcherKind::Kernel);
    assert_eq!(format!("watcher={watcher}"), line);
}

#[test]
fn the_header_of_an_image_with_a_data_pool_leaves_the_pool_out() {
    let prefix: BlockNamePrefix = "rbd_data.14.f561643c9869".parse().unwrap();
    assert_eq!(prefix.data_pool_id(), Some(14));
    assert_eq!(prefix.header_object(&ImageName::new("a").unwrap()).as_str(), "rbd_header.f561643c9869");
    assert!("rbd_data.".parse::<BlockNamePrefix>().is_err());
}

#[test]
fn a_spec_is_written_as_it_was_read() {
    for text in ["image", "pool/image", "pool/ns/image", "pool/ns/image@snap", "image@snap"] {
        assert_eq!(text.parse::<ImageSpec>().unwrap().to_string(), text);
    }
}
