//! `rbd device map`

use rbd::attach::Attach;
use rbd::krbd::{Krbd, MapOption, MapOptions, Stage};
use rbd::rados::ClusterBuilder;
use rbd::{ErrorKind, Features, Image};

use crate::arguments::{Arguments, Command, IMAGE, Opt, SNAPSHOT, Takes};
use crate::ceph_arguments::{Stop, errno, say};
use crate::device::{self, failed};
use crate::format::print_line;
use crate::spec::{Names, invalid};

pub const COMMAND: Command = Command {
    names: &[&["device", "map"], &["map"]],
    options: &[device::TYPE, IMAGE, SNAPSHOT, OWN, device::OPTIONS],
    positional: 1,
    run,
};

/// Those for other drivers are taken and not used.
const OWN: &[Opt] = &[
    Opt::new("show-cookie", Takes::Nothing),
    Opt::new("cookie", Takes::Value),
    Opt::new("read-only", Takes::Nothing),
    Opt::new("exclusive", Takes::Nothing),
    Opt::new("quiesce", Takes::Nothing),
    Opt::new("quiesce-hook", Takes::Value),
];

fn run(arguments: &Arguments, builder: &ClusterBuilder) -> Result<(), Stop> {
    device::check_type(arguments)?;
    let mut names = Names::of(arguments, true)?;
    let options = options(arguments)?;
    for quiesce in ["quiesce", "quiesce-hook"].into_iter().filter(|option| arguments.has(option)) {
        say!("rbd: warning: {quiesce} is not supported");
    }

    let cluster = crate::connect(builder)?;
    let pool = names.open_pool(&cluster)?;
    names.pool = pool.name().to_string();
    // The kernel looks for the snapshot.
    let snapshot = std::mem::take(&mut names.snapshot);
    let image = names.open_read_only(&pool, None)?;
    names.snapshot = snapshot;

    let (krbd, spec) = (Krbd::new(), names.spec().map_err(|error| failed("rbd: map failed", &error))?);
    let defaults = image.config("rbd_default_map_options").and_then(|text| parse(&text));
    let defaults = defaults.map_err(|error| option_error("couldn't parse default map options", &error))?;
    let request = Attach::new(&cluster, &krbd).request(&spec, &options.or(&defaults));
    let request = request.map_err(|error| {
        say!("rbd: {error}");
        failed("rbd: map failed", &error)
    })?;
    if let Some(first) = krbd.find(&spec).unwrap_or_default().first() {
        say!("rbd: warning: image already mapped as {}", first.node.display());
    }
    if let Err(error) = krbd.load_module() {
        say!("rbd: {error}");
    }
    let device = krbd.map(&request).map_err(|error| {
        explain(&error, &krbd, &image, &names, &cluster.config("rbd_default_pool").unwrap_or_default());
        failed("rbd: map failed", &error)
    })?;
    print_line(&device.node.display().to_string());
    Ok(())
}

/// `-o`, of which the last of a kind counts, and the options of their own, which win.
fn options(arguments: &Arguments) -> Result<MapOptions, Stop> {
    let mut options = MapOptions::new();
    for text in arguments.all("options") {
        let more = parse(text).map_err(|error| option_error("couldn't parse map options", &error))?;
        options = more.or(&options);
    }
    if arguments.has("read-only") {
        options = options.read_only();
    }
    if arguments.has("exclusive") {
        options = options.exclusive();
    }
    Ok(options)
}

/// The original takes a value of a flag, such as `ro=yes`, and does not look at it.
fn parse(text: &str) -> rbd::Result<MapOptions> {
    let words = text.split(',').map(|word| match word.split_once('=') {
        Some((flag, _)) if flag.parse::<MapOption>().is_ok() => flag,
        _ => word,
    });
    words.collect::<Vec<_>>().join(",").parse()
}

/// The library's hint has the original's words.
fn option_error(what: &str, error: &rbd::Error) -> Stop {
    say!("rbd: {}", error.hint().unwrap_or_default());
    invalid(what)
}

/// Says at which step it failed, and what can be done about it. The hints are on the standard output, as the original's.
fn explain(error: &rbd::Error, krbd: &Krbd, image: &Image, names: &Names, default_pool: &str) {
    match (error.kind(), error.stage()) {
        (ErrorKind::NoMonitor, _) => say!("rbd: failed to get mon address (possible ms_mode mismatch)"),
        (ErrorKind::NodeUnusable, _) => {
            let node = error.object().unwrap_or_default();
            say!("rbd: mapping succeeded but {node} is not accessible, is host /dev mounted?");
        }
        (ErrorKind::ModuleNotLoaded, _) | (_, Some(Stage::Open | Stage::Write)) => {
            say!("rbd: sysfs write failed");
        }
        _ => say!("rbd: {error}"),
    }
    if errno(error) == libc::ENXIO && image.id().is_ok_and(|id| id.is_some()) {
        let what = what_to_disable(krbd, image, names, default_pool);
        print_line(&format!("RBD image feature set mismatch. {what}"));
    }
    print_line("In some cases useful info is found in syslog - try \"dmesg | tail\".");
}

fn what_to_disable(krbd: &Krbd, image: &Image, names: &Names, default_pool: &str) -> String {
    let (Ok(Some(supported)), Ok(features)) = (krbd.supported_features(), image.features()) else {
        return "Try disabling features unsupported by the kernel with \"rbd feature disable\".".into();
    };
    let listed = |features: Features| {
        // The original has no name for this one.
        let named = features.difference(Features::DIRTY_CACHE);
        named.names().map(|name| format!(" {name}")).collect::<String>()
    };
    let unsupported = features.difference(supported);
    // `rbd feature disable` refuses the last two; the original advises it all the same.
    let changeable = Features::MUTABLE | Features::DISABLE_ONLY | Features::NON_PRIMARY | Features::DIRTY_CACHE;
    let immutable = unsupported.difference(changeable);
    if !immutable.is_empty() {
        let which = listed(immutable);
        return format!(
            "This image cannot be mapped because the following immutable features are unsupported by the kernel:{which}."
        );
    }
    let mut image = names.image.clone();
    if !names.namespace.is_empty() {
        image = format!("{}/{image}", names.namespace);
    }
    if names.pool != default_pool || !names.namespace.is_empty() {
        image = format!("{}/{image}", names.pool);
    }
    let which = listed(unsupported);
    format!("You can disable features unsupported by the kernel with \"rbd feature disable {image}{which}\".")
}
