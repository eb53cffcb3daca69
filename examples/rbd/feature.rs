//! `rbd feature disable` and `rbd feature enable`

use rbd::Features;
use rbd::feature::{FeatureChange, FeatureStep};
use rbd::rados::ClusterBuilder;

use crate::arguments::{Arguments, Command, IMAGE, Opt, Takes, bytes};
use crate::ceph_arguments::{Stop, errno, strerror};
use crate::spec::{Names, invalid};

pub const DISABLE: Command = Command {
    names: &[&["feature", "disable"]],
    options: &[IMAGE],
    positional: usize::MAX,
    run: |arguments, builder| change(arguments, builder, FeatureChange::Disable),
};

pub const ENABLE: Command = Command {
    names: &[&["feature", "enable"]],
    options: &[IMAGE, JOURNAL],
    positional: usize::MAX,
    run: |arguments, builder| change(arguments, builder, FeatureChange::Enable),
};

/// What the journal is to be like, where the feature `journaling` is enabled.
const JOURNAL: &[Opt] = &[
    Opt::new("journal-splay-width", Takes::Number),
    Opt::new("journal-object-size", Takes::Size(4096..=64 << 20)),
    Opt::new("journal-pool", Takes::Value),
];

fn change(arguments: &Arguments, builder: &ClusterBuilder, change: FeatureChange) -> Result<(), Stop> {
    let names = Names::of(arguments, true)?.without_snapshot()?;
    let words = &arguments.positional[Names::used(arguments)..];
    if words.is_empty() {
        return Err(invalid("at least one feature name must be specified"));
    }
    let features = words.iter().flat_map(|word| word.split(',')).filter(|name| !name.is_empty());
    let features: Option<Features> = features.map(feature).collect();
    let features = features.ok_or_else(|| Stop::Exit(1, "rbd: the argument for option is invalid".into()))?;
    let cluster = crate::connect(&with_journal(arguments, builder))?;
    let image = names.open(&names.open_pool(&cluster)?)?;
    image.apply_step(FeatureStep { change, features }).map_err(|error| {
        let errno = errno(&error);
        Stop::Exit(errno, format!("rbd: failed to update image features: {}", strerror(errno)))
    })
}

/// A feature by its name; `dirty-cache` has none on this command line.
fn feature(name: &str) -> Option<Features> {
    let feature = name.parse::<Features>().ok()?;
    (feature.to_string() == name && feature != Features::DIRTY_CACHE).then_some(feature)
}

fn with_journal(arguments: &Arguments, builder: &ClusterBuilder) -> ClusterBuilder {
    let mut builder = builder.clone();
    if let Some(size) = arguments.get("journal-object-size").and_then(bytes) {
        builder = builder.option("rbd_journal_order", &size.next_power_of_two().ilog2().to_string());
    }
    if let Some(width) = arguments.get("journal-splay-width") {
        builder = builder.option("rbd_journal_splay_width", width);
    }
    if let Some(pool) = arguments.get("journal-pool") {
        builder = builder.option("rbd_journal_pool", pool);
    }
    builder
}
