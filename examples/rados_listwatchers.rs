//! `rados listwatchers` on this library alone, with the same arguments, output, messages and exit codes.
//!
//!     rados_listwatchers -p kube listwatchers rbd_header.fb236b8b4567
//!
//! Nothing else that `rados` can do is here: its other options and commands are refused by name, and the usage is this
//! program's own.

mod ceph_arguments;

use std::io::Write as _;
use std::process::ExitCode;

use ceph_arguments::{CephArguments, Stop, errno, say, strerror};
use rbd::{NamespaceName, PoolName};

const USAGE: &str = "usage: [-p POOL] [-N NAMESPACE] listwatchers OBJECT";

/// The options that `rados` has besides, for other commands or without a meaning for this one.
const REFUSED: &[&str] = &[
    "-b",
    "-C",
    "-o",
    "-O",
    "-s",
    "-S",
    "-t",
    "--all",
    "--block-size",
    "--concurrent-ios",
    "--create",
    "--create-pool",
    "--default",
    "--delete-after",
    "--force-full",
    "--format",
    "--input-file",
    "--lock-cookie",
    "--lock-description",
    "--lock-duration",
    "--lock-tag",
    "--lock-type",
    "--max-backlog",
    "--max-object-size",
    "--max-objects",
    "--max-op-len",
    "--max-ops",
    "--min-object-size",
    "--min-op-len",
    "--no-cleanup",
    "--no-hints",
    "--no-verify",
    "--num-objects",
    "--obj-name-file",
    "--object-locator",
    "--object-size",
    "--offset",
    "--offset-align",
    "--omap-key-file",
    "--output",
    "--pgid",
    "--prefix",
    "--pretty-format",
    "--read-percent",
    "--reuse-bench",
    "--run-length",
    "--run-name",
    "--show-time",
    "--snap",
    "--snapid",
    "--striper",
    "--target-locator",
    "--target-nspace",
    "--target-pool",
    "--target-throughput",
    "--with-clones",
    "--with-reference",
    "--workers",
    "--write-object",
    "--write-omap",
    "--write-xattr",
];

/// Where the object is.
#[derive(Default)]
struct Arguments {
    pool: Option<String>,
    namespace: String,
    positional: Vec<String>,
}

impl Arguments {
    fn parse(rest: Vec<String>) -> Result<Self, Stop> {
        let mut arguments = Self::default();
        let mut left = rest.into_iter();
        while let Some(argument) = left.next() {
            let (option, adjacent) = match argument.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (&*argument, None),
            };
            let mut value = || {
                let missing = || Stop::Exit(1, format!("Option {option} requires an argument."));
                adjacent.clone().or_else(|| left.next()).ok_or_else(missing)
            };
            match option {
                "--" => arguments.positional.extend(left.by_ref()),
                "-p" | "--pool" => arguments.pool = Some(value()?),
                "-N" | "--namespace" => arguments.namespace = value()?,
                "-h" | "--help" => return Err(Stop::Exit(0, USAGE.into())),
                _ if REFUSED.contains(&&*option.replace('_', "-")) => return Err(Stop::Refused(argument)),
                _ => arguments.positional.push(argument),
            }
        }
        Ok(arguments)
    }
}

fn run(given: &[String]) -> Result<(), Stop> {
    // A format for `rados`, but for librados, which takes it first, something else.
    if given.iter().take_while(|argument| *argument != "--").any(|argument| argument == "-f") {
        return Err(Stop::Refused("-f".into()));
    }
    let mut ceph = CephArguments::take(given)?;
    ceph.choose_config_file()?;
    let arguments = Arguments::parse(std::mem::take(&mut ceph.rest))?;
    let fail = |message: String| Stop::Exit(1, message);
    let first = arguments.positional.first().ok_or_else(|| {
        fail(if given.is_empty() {
            "rados: -h or --help for usage".into()
        } else {
            "rados: you must give an action. Try --help".into()
        })
    })?;
    let is_without_mon_config = given.iter().any(|argument| argument.replace('_', "-") == "--no-mon-config");
    let cluster = ceph_arguments::connect(&ceph.builder, |errno| {
        fail(if is_without_mon_config {
            format!("couldn't connect to cluster: {}", strerror(errno))
        } else {
            "failed to fetch mon config (--no-mon-config to skip)".into()
        })
    })?;
    let pool = arguments.pool.as_deref().map(|name| {
        let pool = PoolName::new(name).and_then(|name| cluster.pool(name));
        pool.map_err(|error| fail(format!("error opening pool {name}: {}", strerror(errno(&error)))))
    });
    let pool = pool.transpose()?;
    if first != "listwatchers" {
        let message = format!("unrecognized command {first}; -h or --help for usage\nerror 22: {}", strerror(22));
        return Err(fail(message));
    }
    let (Some(pool), [_, object, ..]) = (pool, &arguments.positional[..]) else {
        return Err(fail(USAGE.into()));
    };
    let watchers = Some(&*arguments.namespace)
        .filter(|name| !name.is_empty())
        .map(NamespaceName::new)
        .transpose()
        .and_then(|namespace| pool.in_namespace(namespace.as_ref())?.list_watchers(object));
    let watchers = watchers.map_err(|error| {
        // An object without a name is no object.
        let errno = if object.is_empty() { libc::EINVAL } else { errno(&error) };
        fail(format!("error listing watchers {}/{object}: {}", pool.name(), strerror(errno)))
    })?;
    for watcher in watchers {
        // Whoever does not listen any more, as `head`, misses it.
        let _ = writeln!(std::io::stdout(), "watcher={watcher}");
    }
    Ok(())
}

fn main() -> ExitCode {
    let given: Result<Vec<_>, _> = std::env::args_os().skip(1).map(|argument| argument.into_string()).collect();
    let done = match &given {
        Ok(given) => run(given),
        Err(argument) => Err(Stop::Refused(format!("{} (no UTF-8)", argument.display()))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Exit(0, message)) => {
            let _ = writeln!(std::io::stdout(), "{message}");
            ExitCode::SUCCESS
        }
        Err(Stop::Exit(_, message)) => {
            say!("{message}");
            ExitCode::FAILURE
        }
        Err(Stop::Refused(what)) => {
            say!("rados: {what}: not supported by this program");
            ExitCode::FAILURE
        }
    }
}
