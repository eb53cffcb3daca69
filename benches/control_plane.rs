//! What the calls of the control plane cost, and "who uses this image?" against the two programs that tell it:
//! `benches/run control_plane`.

mod ground;
mod interleaved;

use criterion::Criterion;
use ground::Ground;
use interleaved::{Peer, compare};
use rbd::image::ImageOptions;
use rbd::{Cluster, HeaderObject, Image, ImageName, PoolName, Watcher};

const IMAGE: &str = "image";

fn main() {
    let ground = Ground::new("control-plane");
    ground.pool.create_image(&ImageName::new(IMAGE).unwrap(), 1 << 30, &ImageOptions::new()).unwrap();
    let _holder = ground.hold(IMAGE);

    let mut criterion = Criterion::default().configure_from_args();
    calls(&mut criterion, &ground);
    criterion.final_summary();
    story(&ground);
}

fn calls(criterion: &mut Criterion, ground: &Ground) {
    let image = ground.pool.open_read_only(IMAGE).unwrap();
    let header = image.header_object().unwrap();
    let mut group = criterion.benchmark_group("control_plane");
    group.bench_function("connect, disconnect", |b| b.iter(|| ground::connect().disconnect().unwrap()));
    group.bench_function("open read-only, close", |b| {
        b.iter(|| ground.pool.open_read_only(IMAGE).unwrap().close().unwrap());
    });
    group.bench_function("info", |b| b.iter(|| image.info().unwrap()));
    group.bench_function("header object", |b| b.iter(|| image.header_object().unwrap()));
    group.bench_function("watchers of image", |b| b.iter(|| image.watchers().unwrap()));
    group.bench_function("watchers of header object", |b| b.iter(|| ground.pool.list_watchers(&header).unwrap()));
}

/// Who uses the image, with more and more of the way already gone.
fn story(ground: &Ground) {
    let pool = ground.pool.name();
    let image = ground.pool.open_read_only(IMAGE).unwrap();
    let header = image.header_object().unwrap();
    assert_eq!(by_programs(ground), lines(&by_open_image(&image)), "the programs tell the same");

    let ratios = compare(
        "who uses this image?",
        60,
        &mut [
            Peer::new("rbd info, rados listwatchers", 1, || by_programs(ground)),
            Peer::new("connect, open, ask, close, disconnect", 1, || {
                let cluster = ground::connect();
                let watchers = by_connection(&cluster, pool);
                cluster.disconnect().unwrap();
                watchers
            }),
            Peer::new("open, ask, close on a live connection", 5, || by_connection(&ground.cluster, pool)),
            Peer::new("ask on an open image", 20, || by_open_image(&image)),
            Peer::new("ask the header object, the id known", 20, || by_header(ground, &header)),
        ],
    );
    println!("\n  wanted: 2.5x with connect and shutdown, 8x on a live connection, 20x after that");
    for (ratio, wanted) in ratios.into_iter().zip([1.0, 2.5, 8.0, 20.0, 20.0]) {
        assert!(ratio >= wanted, "{ratio:.2}x is less than {wanted}x");
    }
}

/// The watchers' lines, as an operator gets at them.
fn by_programs(ground: &Ground) -> Vec<String> {
    let pool = ground.pool.name().as_str();
    let info = ground.run("rbd", &["info", "--format", "json", &format!("{pool}/{IMAGE}")]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let header = format!("rbd_header.{}", info["id"].as_str().unwrap());
    let watchers = ground.run("rados", &["-p", pool, "listwatchers", &header]);
    watchers.lines().map(str::to_owned).collect()
}

fn by_connection(cluster: &Cluster, pool: &PoolName) -> Vec<Watcher> {
    let image = cluster.pool(pool.clone()).unwrap().open_read_only(IMAGE).unwrap();
    let watchers = by_open_image(&image);
    image.close().unwrap();
    watchers
}

/// All that `rbd info` tells is asked, as the program does.
fn by_open_image(image: &Image) -> Vec<Watcher> {
    let info = image.info().unwrap();
    image.pool().list_watchers(info.header_object()).unwrap()
}

fn by_header(ground: &Ground, header: &HeaderObject) -> Vec<Watcher> {
    ground.pool.list_watchers(header).unwrap()
}

fn lines(watchers: &[Watcher]) -> Vec<String> {
    watchers.iter().map(|watcher| format!("watcher={watcher}")).collect()
}
