//! An image with the feature `dirty-cache`, as a client with a persistent cache leaves it: the bit is set by hand in the
//! header object, the state in the image's metadata.

use rbd::{Features, ImageId};

use super::super::support::{TestCluster, unique};
use super::*;

const KEY: &str = ".rbd_persistent_cache_state";

/// What librbd 16.2.15 wrote for a cache of 1 GiB.
const STATE: &str = r#"{"present":true,"empty":false,"clean":false,"host":"node1","path":"/mnt/nvme/rbd-pwl.rbd.1.pool",
    "size":1073741824,"mode":"ssd","stats_timestamp":1700000000,"allocated_bytes":533659648,"cached_bytes":525729792,
    "dirty_bytes":12345,"free_bytes":540082176,"hits_full":1450,"hits_partial":3,"misses":924,"hit_bytes":201326592,
    "miss_bytes":101056000}"#;

fn set_dirty_cache(pool: &Pool, id: &ImageId, features: Features) {
    let file = std::env::temp_dir().join(unique("features"));
    std::fs::write(&file, features.union(Features::DIRTY_CACHE).bits().to_le_bytes()).unwrap();
    let header = format!("rbd_header.{id}");
    let arguments = ["-p", pool.name().as_str(), "setomapval", &header, "features", "--input-file"];
    TestCluster::shared().rados(arguments.iter().copied().chain(file.to_str()));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn the_status_of_an_image_with_a_persistent_cache_has_its_state() {
    let pool = prepare(&["create --size 8M --image-feature layering %/i"]);
    let (spec, image) = (pool.spec("i"), pool.open_read_only("i").unwrap());
    set_dirty_cache(&pool, &image.id().unwrap().unwrap(), image.features().unwrap());
    let set = |state: &str| drop(TestCluster::shared().rbd(["image-meta", "set", &spec, KEY, state]));
    let in_every_format = || {
        FORMATS.iter().for_each(|format| drop(RBD.agree(&[&["info", &spec], *format].concat())));
        let all: Vec<_> = FORMATS.iter().map(|format| RBD.agree(&[&["status", &spec], *format].concat())).collect();
        all.into_iter().next().unwrap()
    };

    let (_, text, message) = in_every_format();
    assert_eq!(text, "Watchers: none\n");
    assert!(message.starts_with("rbd: getting persistent cache state failed: (2) No such file"), "{message}");
    assert_eq!(pool.open_read_only("i").unwrap().persistent_cache().unwrap_err().errno(), Some(libc::ENOENT));

    for state in [
        STATE.to_owned(),
        STATE.replace("true", "false").replace("false", "true"),
        STATE.replace("1450", "0").replace(":3,", ":0,").replace("924", "0"),
        STATE.replace("node1", r#"<n\"1 é\u0001\r>"#),
    ] {
        set(&state);
        let (_, text, message) = in_every_format();
        assert!(text.contains("\nPersistent cache state:\n\thost: ") && message.is_empty(), "{text}{message}");
    }
    let kathmandu = Pair { environment: &[("TZ", "Asia/Kathmandu")], ..RBD };
    kathmandu.agree(&["status", &spec]);

    let cache = pool.open_read_only("i").unwrap().persistent_cache().unwrap().unwrap();
    assert_eq!((cache.size, &*cache.mode, cache.dirty_bytes, cache.clean), (1 << 30, "ssd", 12345, false));

    set("garbage");
    let (_, _, message) = in_every_format();
    assert_eq!(message, "rbd: parsing persistent cache state failed\n");
    // Which value it is the original says by numbers.
    for state in ["{}", "3", &STATE.replace("1073741824", "\"1G\"")] {
        set(state);
        let (original, ours) = RBD.both(&["status".into(), spec.clone()]);
        assert_eq!((ours.0, &ours.1), (original.0, &original.1));
        for (_, _, message) in [original, ours] {
            assert!(message.starts_with("rbd: parsing persistent cache state failed: "), "{message}");
        }
        let error = pool.open_read_only("i").unwrap().persistent_cache().unwrap_err();
        assert_eq!(error.kind(), rbd::ErrorKind::InvalidData);
    }
}
