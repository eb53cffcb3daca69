//! What every program of Ceph's takes from its command line and environment to find its cluster.

use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use rbd::Cluster;
use rbd::rados::ClusterBuilder;

/// Prints a line to the standard error. That it cannot be written, as on a full disk, changes nothing else.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}
pub(crate) use say;

/// Why a program ends before its end.
#[derive(Debug)]
pub enum Stop {
    /// With this status, and these lines on the standard error.
    Exit(i32, String),
    /// The original can do this, this program cannot.
    Refused(String),
}

/// How to connect, and what is left for the program itself.
pub struct CephArguments {
    pub builder: ClusterBuilder,
    pub rest: Vec<String>,
    config_file: Option<String>,
    cluster: Option<String>,
}

/// Options that print something and end the program, and those that make another user of it.
const REFUSED: [&str; 8] = [
    "--version",
    "--show_args",
    "--show_conf",
    "--show_config",
    "--show_config_value",
    "--setuser",
    "--setgroup",
    "--setuser_match_path",
];

const TYPES: [&str; 6] = ["auth", "mon", "osd", "mds", "mgr", "client"];

impl CephArguments {
    /// Takes Ceph's options out of the arguments, those in `CEPH_ARGS` coming first.
    pub fn take(arguments: &[String]) -> Result<Self, Stop> {
        let environment = env::var("CEPH_ARGS").unwrap_or_default();
        let words: Vec<_> = environment.split(' ').filter(|word| !word.is_empty()).map(String::from).collect();
        let mut left = joined(&words, arguments).into_iter();

        let (mut config_file, mut cluster) = (None, None);
        let (mut kind, mut id) = ("client".to_owned(), "admin".to_owned());
        let mut rest = Vec::new();
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
                "--" => {
                    rest.push(argument);
                    rest.extend(left.by_ref());
                }
                "-c" | "--conf" => config_file = Some(value()?).filter(|list| !list.is_empty()),
                "--cluster" => cluster = Some(value()?).filter(|name| !name.is_empty()),
                "--id" | "--user" => id = value()?,
                "-n" | "--name" => (kind, id) = entity(&value()?)?,
                "-v" => return Err(Stop::Refused(argument)),
                _ if REFUSED.contains(&&*option.replace('-', "_").replacen("__", "--", 1)) => {
                    return Err(Stop::Refused(argument));
                }
                _ => rest.push(argument),
            }
        }

        let builder = Cluster::builder()
            .entity(&format!("{kind}.{id}"))
            .without_connect_deadline()
            .without_deadline()
            .mon_timeout(Duration::MAX);
        // The original goes on without such an option. Ceph has said which it is.
        let (builder, rest) = builder
            .arguments(&rest)
            .map_err(|_| Stop::Refused("an option of Ceph's with a value that is none of its".into()))?;
        Ok(Self { builder, rest, config_file, cluster })
    }

    /// Chooses the configuration file, as `global_init` does: the first of a list that can be opened.
    pub fn choose_config_file(&mut self) -> Result<(), Stop> {
        let builder = std::mem::take(&mut self.builder);
        let cluster = self.cluster.as_deref();
        let list = match (&self.config_file, env::var("CEPH_CONF")) {
            (Some(list), _) => list.clone(),
            (None, Ok(list)) => list,
            (None, Err(_)) => {
                let name = cluster.unwrap_or("ceph");
                format!("/etc/ceph/{name}.conf,$home/.ceph/{name}.conf,{name}.conf")
            }
        };
        let mut list = list.replace("$home", &env::var("HOME").unwrap_or_default());
        if let Some(name) = cluster {
            list = list.replace("$cluster", name);
        }
        let can_be_read =
            |path: &PathBuf| File::open(path).is_ok_and(|file| file.metadata().is_ok_and(|it| !it.is_dir()));
        let file = list.split([',', ';']).map(|path| PathBuf::from(path.trim())).find(can_be_read);
        self.builder = match file {
            Some(file) => {
                // The file's name says the cluster's, where nothing else does.
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let name = cluster.unwrap_or(name.split_once(".conf").map_or("ceph", |(name, _)| name));
                builder.cluster_name(name).config_file(&file)
            }
            None if self.config_file.is_some() => {
                let message = format!("global_init: unable to open config file from search list {list}");
                return Err(Stop::Exit(1, message));
            }
            None => {
                say!("did not load config file, using default settings.");
                builder.cluster_name(cluster.unwrap_or("ceph")).no_config_file()
            }
        };
        Ok(())
    }
}

/// Options of the environment before those given, positional arguments after `--` the other way round.
fn joined(environment: &[String], given: &[String]) -> Vec<String> {
    fn split(words: &[String]) -> (&[String], Option<&[String]>) {
        match words.iter().position(|word| word == "--") {
            Some(at) => (&words[..at], Some(&words[at + 1..])),
            None => (words, None),
        }
    }
    let ((first, last), (options, positional)) = (split(environment), split(given));
    let mut all = [first, options].concat();
    if last.is_some() || positional.is_some() {
        all.push("--".into());
        all.extend([positional, last].into_iter().flatten().flatten().cloned());
    }
    all
}

/// `TYPE.ID`
fn entity(name: &str) -> Result<(String, String), Stop> {
    match name.split_once('.') {
        Some((kind, id)) if TYPES.contains(&kind) => Ok((kind.into(), id.into())),
        _ => {
            let types = TYPES.join(", ");
            let message =
                format!("error parsing '{name}': expected string of the form TYPE.ID, valid types are: {types}");
            Err(Stop::Exit(1, message))
        }
    }
}

/// What to say of a failed connect, and the status of the program.
///
/// A file that Ceph cannot parse ends the original before it connects; it says where, which C does not tell.
pub fn connect(builder: &ClusterBuilder, refusal: impl FnOnce(i32) -> Stop) -> Result<Cluster, Stop> {
    builder.connect().map_err(|error| match error.operation() {
        "read configuration file" => Stop::Exit(1, format!("global_init: error reading config file. {error}")),
        "look up monitor" => {
            say!("unable to parse addrs in '{}'", error.object().unwrap_or_default());
            refusal(errno(&error))
        }
        _ => refusal(errno(&error)),
    })
}

/// The errno of an error or of what caused it.
pub fn errno(error: &rbd::Error) -> i32 {
    use rbd::name::NameError;
    use rbd::{Details, ErrorKind};

    let cause = || std::error::Error::source(error)?.downcast_ref::<rbd::Error>().map(errno);
    let known = error.errno().or_else(cause);
    known.unwrap_or(match (error.kind(), error.details()) {
        (_, Details::Name(NameError::TooLong { .. })) => libc::ENAMETOOLONG,
        // No pool, image or object has a name that Ceph cannot have made.
        (ErrorKind::InvalidName, _) => libc::ENOENT,
        (ErrorKind::NotFound | ErrorKind::NoMonitor | ErrorKind::ModuleNotLoaded, _) => libc::ENOENT,
        (ErrorKind::InvalidInput | ErrorKind::NodeUnusable, _) => libc::EINVAL,
        (ErrorKind::TimedOut, _) => libc::ETIMEDOUT,
        _ => libc::EIO,
    })
}

/// An errno as Ceph's programs print it: `(2) No such file or directory`.
pub fn strerror(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    format!("({errno}) {}", text.split(" (os error").next().unwrap_or_default())
}
