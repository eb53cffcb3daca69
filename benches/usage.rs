//! Who uses an image against the sum of what is asked for that, and who uses each image of a pool of 1,000 against the
//! bare scan of watchers: `benches/run usage`.

#[allow(dead_code)] // What only the other benchmarks use.
mod ground;
mod interleaved;
mod memory;

use std::fs;
use std::path::Path;

use ground::Ground;
use interleaved::{Peer, compare};
use rbd::image::ImageOptions;
use rbd::krbd::Krbd;
use rbd::usage::{Client, Survey};
use rbd::{Features, Fsid, ImageId, ImageName, ImageSpec, Pool, Usage};

const IMAGES: usize = 1_000;
/// So many of them have a watcher, and as many are mapped on this host.
const HELD: usize = 50;

fn main() {
    if let Some(pool) = memory::pool_of_child() {
        let cluster = ground::connect();
        let scan = Usage::of_pool(&cluster.pool(pool.as_str()).unwrap());
        return memory::of_a_scan(scan.map(|usage| usage.unwrap().clients.unwrap()));
    }
    let ground = Ground::new("usage");
    let options = ImageOptions::new().features(Features::LAYERING);
    for n in 0..IMAGES {
        ground.pool.create_image(&ImageName::new(name(n)).unwrap(), 1 << 30, &options).unwrap();
    }
    let _holders: Vec<_> = (0..HELD).map(|n| ground.hold(&name(n * IMAGES / HELD))).collect();
    let sys = mapped_host(&ground);
    let krbd = Krbd::with_roots(sys.path(), "/dev", "/proc");
    let survey = Survey::new(&ground.cluster).krbd(&krbd).without_holders();

    one_image(&ground, &krbd, &survey);
    whole_pool(&ground, &survey);
    memory::measure(ground.pool.name().as_str());
}

fn name(n: usize) -> String {
    format!("pvc-{n:04}")
}

fn one_image(ground: &Ground, krbd: &Krbd, survey: &Survey) {
    let spec: ImageSpec = format!("{}/{}", ground.pool, name(0)).parse().unwrap();
    let clients = survey.of(&spec).unwrap().clients;
    assert_eq!(
        clients.iter().map(|client| (client.watches.len(), client.mappings.len())).collect::<Vec<_>>(),
        [(1, 0), (0, 1)]
    );
    let ratios = compare(
        "who uses this image, on a live connection?",
        100,
        &mut [
            Peer::new("each part by itself, one after the other", 5, || parts(ground, krbd, &spec)),
            Peer::new("Usage::of", 5, || survey.of(&spec).unwrap()),
        ],
    );
    println!("\n  wanted: at most 1.3 times the sum of its parts");
    assert!(ratios[1] >= 1.0 / 1.3);
}

/// What there is to ask, by who knows what to ask.
fn parts(ground: &Ground, krbd: &Krbd, spec: &ImageSpec) -> usize {
    let pool = ground.cluster.pool_of(spec).unwrap();
    let image = pool.open_read_only(spec.image().clone()).unwrap();
    let info = image.info().unwrap();
    let watchers = pool.list_watchers(info.header_object()).unwrap();
    let lockers = image.lockers().unwrap();
    image.close().unwrap();
    let blocklist = ground.cluster.blocklist().unwrap();
    let devices = krbd.list().unwrap();
    watchers.len() + lockers.len() + blocklist.len() + devices.len()
}

fn whole_pool(ground: &Ground, survey: &Survey) {
    let used = |of: fn(&Client) -> bool| {
        let usages = survey.of_pool(&ground.pool).map(|usage| usage.unwrap().clients.unwrap());
        usages.filter(|clients| clients.iter().any(of)).count()
    };
    assert_eq!((used(|client| !client.watches.is_empty()), used(|client| !client.mappings.is_empty())), (HELD, HELD));
    let subject =
        format!("who uses each of the {IMAGES} images of a pool, {HELD} of them held and {HELD} mapped here?");
    let ratios = compare(
        &subject,
        30,
        &mut [
            Peer::new("scan_watchers: only who watches them", 1, || bare(&ground.pool)),
            Peer::new("Usage::of_pool", 1, || survey.of_pool(&ground.pool).filter(|usage| usage.is_ok()).count()),
            Peer::new("Usage::of_pool, with locks", 1, || {
                survey.of_pool(&ground.pool).with_locks().filter(|usage| usage.is_ok()).count()
            }),
        ],
    );
    println!("\n  wanted: at most twice the bare scan, where locks are not asked for");
    assert!(ratios[1] >= 0.5);
}

fn bare(pool: &Pool) -> usize {
    pool.scan_watchers().filter(|scanned| scanned.is_ok()).count()
}

/// A `/sys` like that of a host where images of the pool are mapped.
fn mapped_host(ground: &Ground) -> tempfile::TempDir {
    let sys = tempfile::tempdir().unwrap();
    let fsid = ground.cluster.fsid().unwrap();
    let images = ground.pool.images().map(|image| image.unwrap().id.unwrap());
    for (id, image) in images.step_by(IMAGES / HELD).enumerate() {
        map(sys.path(), id, fsid, ground.pool.id(), &image);
    }
    sys
}

fn map(sys: &Path, id: usize, fsid: Fsid, pool: i64, image: &ImageId) {
    let directory = sys.join(format!("bus/rbd/devices/{id}"));
    fs::create_dir_all(&directory).unwrap();
    let attributes = [
        ("pool", "renamed".to_owned()),
        ("pool_id", pool.to_string()),
        ("pool_ns", String::new()),
        ("name", name(id)),
        ("image_id", image.to_string()),
        ("current_snap", "-".to_owned()),
        ("cluster_fsid", fsid.to_string()),
        ("client_addr", "192.0.2.10:0/7".to_owned()),
        ("client_id", "client7".to_owned()),
        ("major", "252".to_owned()),
        ("minor", (id * 16).to_string()),
    ];
    for (attribute, value) in attributes {
        fs::write(directory.join(attribute), value + "\n").unwrap();
    }
}
