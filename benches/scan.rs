//! The watchers of every image of a pool of 1,000 images, against `rbd status` for each: `benches/run scan`.

mod ground;
mod interleaved;

use std::collections::BTreeMap;
use std::process::Command;

use ground::Ground;
use interleaved::{Peer, compare};
use rbd::image::ImageOptions;
use rbd::{Features, ImageName, Pool};

const IMAGES: usize = 1_000;
/// So many of them have a watcher.
const HELD: usize = 5;
/// `rbd status` is run for this many, and what it takes is scaled.
const SAMPLE: usize = 30;

/// Set for a child of this program that does nothing but scan the pool of this name.
const MEMORY_OF: &str = "RBD_BENCH_MEMORY_OF";

fn main() {
    if let Ok(pool) = std::env::var(MEMORY_OF) {
        return memory_of_a_scan(&pool);
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

    println!("\nresident memory: its growth over the first scan of a process, at the peak");
    for _ in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        assert!(child.env(MEMORY_OF, ground.pool.name().as_str()).status().unwrap().success());
    }
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

fn memory_of_a_scan(pool: &str) {
    let cluster = ground::connect();
    let pool = cluster.pool(pool).unwrap();
    let before = resident_kib();
    let mut peak = before;
    for (n, scanned) in pool.scan_watchers().enumerate() {
        scanned.unwrap().watchers.unwrap();
        if n % 20 == 0 {
            peak = peak.max(resident_kib());
        }
    }
    let growth = peak.max(resident_kib()) - before;
    let bytes = growth * 1024 / IMAGES;
    println!("  {growth} KiB for {IMAGES} images: {bytes} bytes an image; wanted: less than 500");
    assert!(bytes < 500);
}

/// Exact, as `VmRSS` and `VmHWM` of `/proc/self/status` are not.
fn resident_kib() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let resident = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse().unwrap()
}
