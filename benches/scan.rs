//! The watchers of every image of a pool of 1,000 images, against `rbd status` for each: `benches/run scan`.

mod ground;
mod interleaved;
mod memory;

use std::collections::BTreeMap;

use ground::Ground;
use interleaved::{Peer, compare};
use rbd::image::ImageOptions;
use rbd::{Features, ImageName, Pool};

const IMAGES: usize = 1_000;
/// So many of them have a watcher.
const HELD: usize = 5;
/// `rbd status` is run for this many, and what it takes is scaled.
const SAMPLE: usize = 30;

fn main() {
    if let Some(pool) = memory::pool_of_child() {
        let cluster = ground::connect();
        let scan = cluster.pool(pool.as_str()).unwrap().scan_watchers();
        return memory::of_a_scan(scan.map(|scanned| scanned.unwrap().watchers.unwrap()));
    }
    let ground = Ground::new("scan");
    let options = ImageOptions::new().features(Features::LAYERING);
    for n in 0..IMAGES {
        ground.pool.create_image(&ImageName::new(name(n)).unwrap(), 1 << 30, &options).unwrap();
    }
    let _holders: Vec<_> = (0..HELD).map(|n| ground.hold(&name(n * IMAGES / HELD))).collect();
    check(&ground);

    let mut n = 0;
    let subject = format!("the watchers of all {IMAGES} images of a pool, {HELD} of them held");
    let ratios = compare(
        &subject,
        SAMPLE,
        &mut [
            Peer::new("rbd status, of one image", 1, || {
                n += IMAGES / SAMPLE;
                status(&ground, &name(n % IMAGES))
            }),
            Peer::new("scan_watchers, of all", 1, || scan(&ground.pool)),
        ],
    );
    let ratio = ratios[1] * IMAGES as f64;
    println!("\n  rbd status for each ({SAMPLE} run, scaled) takes {ratio:.0} times as long; wanted: 100");
    assert!(ratio >= 100.0);

    memory::measure(ground.pool.name().as_str());
}

fn name(n: usize) -> String {
    format!("pvc-{n:04}")
}

/// The images that are watched, each with its watchers' lines.
fn scan(pool: &Pool) -> BTreeMap<String, Vec<String>> {
    let scanned = pool.scan_watchers().map(Result::unwrap);
    let watched = scanned.map(|scanned| {
        let watchers = scanned.watchers.unwrap();
        (scanned.image.name.to_string(), watchers.iter().map(|watcher| format!("watcher={watcher}")).collect())
    });
    watched.collect()
}

/// The same by the program.
fn status(ground: &Ground, image: &str) -> Vec<String> {
    let text = ground.run("rbd", &["status", &format!("{}/{image}", ground.pool)]);
    text.lines().map(str::trim).filter(|line| line.starts_with("watcher=")).map(str::to_owned).collect()
}

fn check(ground: &Ground) {
    let scanned = scan(&ground.pool);
    assert_eq!(scanned.len(), IMAGES);
    assert_eq!(scanned.values().filter(|watchers| !watchers.is_empty()).count(), HELD);
    for n in (0..IMAGES).step_by(IMAGES / HELD / 2) {
        assert_eq!(scanned[&name(n)], status(ground, &name(n)), "{}", name(n));
    }
}
