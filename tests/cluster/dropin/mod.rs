//! The examples `rbd` and `rados_listwatchers` against the real programs: the same arguments give the same output,
//! messages and status. Lines of arguments are in the files `*.cases`.

mod cache;
mod environment;

use std::path::{Path, PathBuf};
use std::process::Command;

use rbd::Pool;
use rbd::image::ImageOptions;

use super::library::{OwnPool, create_format_1, image};
use super::support::{TestCluster, example};

/// A program of Ceph's, and ours.
#[derive(Clone, Copy)]
struct Pair {
    original: &'static str,
    ours: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

const RBD: Pair = Pair { original: "rbd", ours: "rbd", environment: &[] };
const RADOS: Pair = Pair { original: "rados", ours: "rados_listwatchers", environment: &[] };

/// Log lines of librados and librbd are not the programs' own.
const QUIET: &str = "--err_to_stderr=false --log_to_stderr=false";

/// Status, standard output and standard error.
type Said = (i32, String, String);

impl Pair {
    fn run(&self, program: &Path, arguments: &[String]) -> Said {
        let mut command = TestCluster::shared().command(program.to_str().unwrap(), arguments);
        said(command.env("CEPH_ARGS", QUIET).envs(self.environment.iter().copied()))
    }

    /// What the original says and what ours does. One after the other: a status lists whoever else looks at an image
    /// that is migrated.
    fn both(&self, arguments: &[String]) -> (Said, Said) {
        (self.run(Path::new(self.original), arguments), self.run(&example(self.ours), arguments))
    }

    /// Runs both, and returns what they agree on.
    #[track_caller]
    fn agree<S: AsRef<str>>(&self, arguments: &[S]) -> Said {
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.as_ref().to_owned()).collect();
        let (original, ours) = self.both(&arguments);
        assert_eq!(ours, original, "{} {arguments:?}", self.original);
        ours
    }
}

fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The lines of a file of cases.
fn cases(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// Words of a line, in which `%` stands for the pool; `''` is an empty one.
fn words(pool: &Pool, line: &str) -> Vec<String> {
    let line = line.replace('%', pool.name().as_str());
    line.split(' ').map(|word| if word == "''" { String::new() } else { word.to_owned() }).collect()
}

/// A pool in which `rbd` has run these lines.
fn prepare(lines: &[&str]) -> OwnPool {
    let pool = OwnPool::new();
    lines.iter().for_each(|line| drop(TestCluster::shared().rbd(words(&pool, line))));
    pool
}

fn header(pool: &Pool, name: &str) -> String {
    pool.open_read_only(name).unwrap().header_object().unwrap().to_string()
}

const FORMATS: [&[&str]; 5] = [
    &[],
    &["--format", "json"],
    &["--format=json", "--pretty-format"],
    &["--format", "xml"],
    &["--pretty-format", "--format", "xml"],
];

#[test]
fn images_of_every_kind_in_every_format() {
    let other = OwnPool::new();
    let pool = prepare(&[
        "create --size 1G %/default",
        "create --size 1000K --object-size 4K --image-feature layering %/small",
        "create --size 1G --image-feature layering,exclusive-lock,journaling %/journal",
        "create --size 30M --stripe-unit 65536 --stripe-count 16 %/striped",
        "snap create --no-progress %/default@first",
        "snap create --no-progress %/default@second",
        "snap protect %/default@second",
        "snap limit set --limit 5 %/default",
        "clone %/default@second %/clone",
        "namespace create %/tenant",
        "create --size 5M %/tenant/inside",
        "group create %/together",
        "group image add %/together %/small",
        "create --size 8M %/parent",
        "snap create --no-progress %/parent@base",
        "clone --rbd-default-clone-format 2 %/parent@base %/orphan",
        "trash mv %/parent",
        "create --size 8M %/<&'\">",
        "create --size 8M %/\u{1}\u{8}\t\n\u{c}\r\u{1b}\u{7f}\u{85}\\rü🦀",
        "create --size 0 %/empty",
        "create --size 4E --image-feature layering %/huge",
    ]);
    create_format_1(&pool, "old");
    pool.create_image(&image("data"), 10 << 20, &ImageOptions::new().data_pool(other.name())).unwrap();
    let odd = ["<&'\">", "\u{1}\u{8}\t\n\u{c}\r\u{1b}\u{7f}\u{85}\\rü🦀"];
    let names =
        ["default", "small", "journal", "striped", "clone", "tenant/inside", "orphan", "old", "data", "empty", "huge"];
    for name in names.into_iter().chain(odd) {
        let spec = pool.spec(name);
        RBD.agree(&["status", &spec]);
        for format in FORMATS {
            let (status, ..) = RBD.agree(&[&["info", &spec], format].concat());
            assert_eq!(status, 0, "info {spec} {format:?}");
        }
    }
    for format in FORMATS {
        RBD.agree(&[&["info", &pool.spec("default@first")], format].concat());
        RBD.agree(&[&["info", &pool.spec("default@second")], format].concat());
    }
}

#[test]
fn an_image_that_is_migrated_has_that_in_its_status() {
    let other = OwnPool::new();
    let pool = prepare(&["create --size 8M %/source", "namespace create %/tenant", "create --size 8M %/tenant/source"]);
    for (number, source) in [pool.spec("source"), pool.spec("tenant/source")].iter().enumerate() {
        let target = other.spec(&format!("target-{number}"));
        TestCluster::shared().rbd(["migration", "prepare", source, &target]);
        for format in FORMATS {
            let (_, text, _) = RBD.agree(&[&["status", &target], format].concat());
            assert!(text.contains("prepared"), "{text}");
            RBD.agree(&[&["status", source], format].concat());
        }
        TestCluster::shared().rbd(["migration", "execute", "--no-progress", &target]);
        RBD.agree(&["status", &target]);
        TestCluster::shared().rbd(["migration", "commit", "--no-progress", &target]);
        RBD.agree(&["status", &target]);
    }
}

#[test]
fn watchers_in_every_format() {
    let cluster = TestCluster::shared();
    let pool = prepare(&["create --size 8M %/held"]);
    let spec = pool.spec("held");
    let _holders = [cluster.hold_image(&spec), cluster.hold_image(&spec)];
    for format in FORMATS {
        let (_, text, _) = RBD.agree(&[&["status", &spec], format].concat());
        assert_eq!(text.matches("127.0.0.1:0/").count(), 2, "{text}");
    }
    let (_, text, _) = RADOS.agree(&["-p", pool.name().as_str(), "listwatchers", &header(&pool, "held")]);
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn every_way_to_name_an_image() {
    let pool = prepare(&[
        "create --size 8M %/i",
        "snap create --no-progress %/i@s",
        "namespace create %/n",
        "create --size 9M %/n/i",
        "create --size 8M %/-",
    ]);
    let id = pool.open_read_only("i").unwrap().id().unwrap().unwrap();
    for line in cases(include_str!("naming.cases")) {
        RBD.agree(&words(&pool, &line.replace("ID", id.as_str())));
    }
    RBD.agree(&["info", "-p", pool.name().as_str(), &"x".repeat(2042)]);
    RBD.agree(&["info", "--namespace", &"x".repeat(256), &pool.spec("i")]);
    RBD.agree(&["info", "--namespace", &"x".repeat(257), &pool.spec("i")]);
}

#[test]
fn arguments_that_are_wrong() {
    let pool = prepare(&[]);
    for line in cases(include_str!("wrong.cases")) {
        let (status, text, message) = RBD.agree(&words(&pool, line));
        assert!(status != 0 && text.is_empty() && !message.is_empty(), "{line}");
    }
}

#[test]
fn devices_that_are_not_there() {
    let pool =
        prepare(&["create --size 8M %/bogus", "config image set %/bogus rbd_default_map_options queue_depth=3,bogus"]);
    for line in cases(include_str!("devices.cases")) {
        RBD.agree(&words(&pool, line));
    }
}

/// Each program changes an image of its own, and the two stay the same.
#[test]
fn features_are_changed_alike() {
    let pool = prepare(&["create --size 8M %/original", "create --size 8M %/ours"]);
    for line in cases(include_str!("features.cases")) {
        let run = |program: &Path, name: &str| {
            let line = format!("feature {}", line.replace('%', &pool.spec(name)));
            let said = RBD.run(program, &words(&pool, &line));
            let info = pool.open_read_only(name).unwrap().info().unwrap();
            (said, info.features, info.flags)
        };
        assert_eq!(run(&example("rbd"), "ours"), run(Path::new("rbd"), "original"), "{line}");
    }
}

/// Its client keeps the exclusive lock: it does itself what it is asked for, and does not let others have the lock for
/// what it cannot do.
#[test]
fn features_of_an_image_in_use_are_changed_alike() {
    for (line, status) in
        [("disable % object-map fast-diff", 0), ("disable % deep-flatten", 0), ("enable % journaling", 30)]
    {
        let pool = prepare(&["create --size 8M %/original", "create --size 8M %/ours"]);
        let run = |program: &Path, name: &str| {
            let _holder = TestCluster::shared().keep_lock_of_image(&pool.spec(name));
            let said = RBD.run(program, &words(&pool, &format!("feature {}", line.replace('%', &pool.spec(name)))));
            (said, pool.open_read_only(name).unwrap().features().unwrap())
        };
        let ours = run(&example("rbd"), "ours");
        assert_eq!(ours, run(Path::new("rbd"), "original"), "{line}");
        assert_eq!(ours.0.0, status, "{line}");
    }
}

#[test]
fn a_journal_is_made_as_asked_for() {
    let pool = prepare(&[]);
    let journals = [(PathBuf::from("rbd"), "original"), (example("rbd"), "ours")].map(|(program, name)| {
        TestCluster::shared().rbd(words(&pool, &format!("create --size 8M --image-feature exclusive-lock %/{name}")));
        let journal = "--journal-object-size 5M --journal-splay-width 3 --journal-pool %";
        let said = RBD.run(&program, &words(&pool, &format!("feature enable %/{name} journaling {journal}")));
        assert_eq!(said, (0, String::new(), String::new()));
        TestCluster::shared().rbd_json(words(&pool, &format!("journal info --image %/{name}")))
    });
    for key in ["order", "splay_width"] {
        assert!(journals[0][key].is_number(), "{}", journals[0]);
        assert_eq!(journals[1][key], journals[0][key]);
    }
}

#[test]
fn listwatchers_like_rados() {
    let cluster = TestCluster::shared();
    let pool = prepare(&["create --size 8M %/held", "namespace create %/n", "create --size 8M %/n/held"]);
    let _holders = [cluster.hold_image(&pool.spec("held")), cluster.hold_image(&pool.spec("n/held"))];
    let inner = header(&pool.in_namespace(Some(&"n".parse().unwrap())).unwrap(), "held");
    for line in cases(include_str!("listwatchers.cases")) {
        RADOS.agree(&words(&pool, &line.replace("OUTER", &header(&pool, "held")).replace("INNER", &inner)));
    }
    let in_pool = |arguments: &[&str]| drop(RADOS.agree(&[&["-p", pool.name().as_str()], arguments].concat()));
    in_pool(&["listwatchers", &"x".repeat(2049)]);
    in_pool(&["-N", &"x".repeat(257), "listwatchers", "x"]);
    RADOS.agree::<&str>(&[]);
    for option in ["--pgid=1.0", "--object_locator", "-b", "--format", "-f"] {
        let arguments = ["-p", pool.name().as_str(), "listwatchers", "x", option].map(String::from);
        let said = RADOS.run(&example("rados_listwatchers"), &arguments);
        assert_eq!(said, (1, String::new(), format!("rados: {option}: not supported by this program\n")));
    }
}
