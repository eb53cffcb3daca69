//! How to connect.

use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::arguments;
use super::cluster::Cluster;
use super::connection::{Connection, DEFAULT_DEADLINE, Failure, no_thread};
use super::worker::{NoResult, Workers};
use crate::address::host_names;
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::ffi::Errno;
use crate::ffi::cluster::{RadosHandle, Unconnected, is_one_path};
use crate::secret::Secret;

/// `CEPH_CONF_FILE_DEFAULT`, the search of every Ceph program, which C does only when it may look at `CEPH_CONF` too.
const DEFAULT_FILES: &str = "$data_dir/config,/etc/ceph/$cluster.conf,$home/.ceph/$cluster.conf,$cluster.conf";

const CONNECT: &str = "connect to cluster";
const OSD_TIMEOUT: &str = "rados_osd_op_timeout";
/// How much may be under way before librados makes the next operation wait, and the defaults.
const THROTTLES: [(&str, &str); 2] = [("objecter_inflight_ops", "1024"), ("objecter_inflight_op_bytes", "104857600")];
const READ_FILE: &str = "read configuration file";
const READ_KEY: &str = "read key";
const UNREADABLE: &str = "Ceph cannot parse it";

/// Says how to connect; made by [`Cluster::builder`].
///
/// What is set here wins over [`arguments`](Self::arguments), they win over `CEPH_ARGS`, and that wins over the
/// configuration file.
///
/// # Deadlines
///
/// | set by | bounds | default |
/// |---|---|---|
/// | [`connect_deadline`](Self::connect_deadline) | [`connect`](Self::connect) as a whole (and `client_mount_timeout`) | 30 s |
/// | [`deadline`](Self::deadline) | each later call as a whole, unless the handle was given another one | 30 s |
/// | [`mon_timeout`](Self::mon_timeout) | one question to the monitors inside librados (`rados_mon_op_timeout`) | 30 s |
/// | [`osd_timeout`](Self::osd_timeout) | one operation of an object inside librados (`rados_osd_op_timeout`) | none |
///
/// Where the configuration does not say otherwise, librados starts any number of operations at once
/// (`objecter_inflight_ops` and `objecter_inflight_op_bytes` are 0): with Ceph's defaults those that wait for a silent
/// OSD would in the end hold up those to all others.
#[derive(Debug, Clone)]
#[must_use]
pub struct ClusterBuilder {
    entity: String,
    cluster_name: String,
    file: ConfigFile,
    environment: bool,
    options: Vec<(String, Secret)>,
    /// Key file and keyring, by the option that names them.
    key_files: Vec<(&'static str, PathBuf)>,
    pub(super) arguments: Vec<Secret>,
    connect_deadline: Option<Duration>,
    deadline: Option<Duration>,
    mon_timeout: Duration,
    osd_timeout: Option<Duration>,
}

#[derive(Debug, Clone)]
enum ConfigFile {
    Search,
    Given(PathBuf),
    None,
}

impl Default for ClusterBuilder {
    fn default() -> Self {
        Self {
            entity: "client.admin".into(),
            cluster_name: "ceph".into(),
            file: ConfigFile::Search,
            environment: false,
            options: Vec::new(),
            key_files: Vec::new(),
            arguments: Vec::new(),
            connect_deadline: Some(DEFAULT_DEADLINE),
            deadline: Some(DEFAULT_DEADLINE),
            mon_timeout: DEFAULT_DEADLINE,
            osd_timeout: None,
        }
    }
}

impl ClusterBuilder {
    /// The user by its id, the `admin` of `client.admin` (the default).
    pub fn user(self, id: &str) -> Self {
        self.entity(&format!("client.{id}"))
    }

    /// The user by its full name, such as `client.admin`.
    pub fn entity(mut self, name: &str) -> Self {
        self.entity = name.into();
        self
    }

    /// The name that stands for `$cluster` in paths; `ceph` by default.
    pub fn cluster_name(mut self, name: &str) -> Self {
        self.cluster_name = name.into();
        self
    }

    /// Reads this configuration file, which must exist. The default is to read the first of
    /// `/etc/ceph/$cluster.conf`, `~/.ceph/$cluster.conf` and `$cluster.conf` that exists, if any.
    pub fn config_file(mut self, path: impl AsRef<Path>) -> Self {
        self.file = ConfigFile::Given(path.as_ref().into());
        self
    }

    /// Reads no configuration file.
    pub fn no_config_file(mut self) -> Self {
        self.file = ConfigFile::None;
        self
    }

    /// Lets `CEPH_CONF` name the configuration file (unless one is given here), as it does for the `rbd` and `ceph`
    /// programs. A library that is embedded does not look at it unasked.
    ///
    /// `CEPH_ARGS` and `CEPH_KEYRING` cannot be left to this choice: librados itself takes options from them whenever a
    /// handle is made. What is set here wins over them.
    pub fn use_environment(mut self) -> Self {
        self.environment = true;
        self
    }

    /// The monitors, as `mon_host` takes them.
    pub fn mon_host(self, addresses: &str) -> Self {
        self.option("mon_host", addresses)
    }

    /// The user's key. It stays out of `Debug` and errors; librados keeps a copy of its own in memory.
    pub fn key(mut self, key: Secret) -> Self {
        self.options.push(("key".into(), key));
        self
    }

    /// A file with nothing but the user's key, which must exist.
    pub fn key_file(mut self, path: impl AsRef<Path>) -> Self {
        self.key_files.push(("keyfile", path.as_ref().into()));
        self
    }

    /// A keyring with the user in it, which must exist.
    pub fn keyring(mut self, path: impl AsRef<Path>) -> Self {
        self.key_files.push(("keyring", path.as_ref().into()));
        self
    }

    /// Any option of Ceph's. Unknown names and values that do not fit are errors of [`connect`](Self::connect).
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.into(), Secret::verbatim(value)));
        self
    }

    /// How long [`connect`](Self::connect) may take.
    pub fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.connect_deadline = Some(deadline);
        self
    }

    /// Lets [`connect`](Self::connect) take as long as the configuration allows (`client_mount_timeout`, 300 s where it
    /// says nothing), as Ceph's own programs do.
    pub fn without_connect_deadline(mut self) -> Self {
        self.connect_deadline = None;
        self
    }

    /// How long each call on the connection may take as a whole; handles can be given another deadline
    /// ([`Cluster::with_deadline`]).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Lets calls wait for ever, as the C libraries do. They then run on the caller's thread.
    pub fn without_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// When librados itself gives up a question to the monitors (`rados_mon_op_timeout`, whole seconds). It frees the
    /// thread that a call left behind when its deadline passed. A configuration file that sets it wins. It is off while
    /// a command to the manager is under way, which would write to freed memory after it.
    pub fn mon_timeout(mut self, timeout: Duration) -> Self {
        self.mon_timeout = timeout;
        self
    }

    /// When librados itself gives up an operation of an object (`rados_osd_op_timeout`, whole seconds).
    ///
    /// None by default, and better so on a connection that writes: after a write that was given up librbd's next flush
    /// reports success although the data is lost. Where one is set, here or in the configuration file, librbd's cache
    /// is therefore off (`rbd_cache`), so that every write tells how it went, and an [`Image`](crate::Image) refuses
    /// flush and orderly close once one has timed out. An image for which it is on all the same (`rbd config image
    /// set`) refuses to be written.
    pub fn osd_timeout(mut self, timeout: Duration) -> Self {
        self.osd_timeout = Some(timeout);
        self
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// `TimedOut` when no monitor answered in time; `PermissionDenied` for a wrong key or user, also where no key of
    /// the user is found; `NotFound` without a monitor's address, or a file that was given; `InvalidInput` for a file
    /// or an option that Ceph cannot parse.
    ///
    /// librados itself writes to standard output and standard error where it finds no monitor's address, or none that
    /// it can parse.
    #[doc(alias = "rados_create2")]
    #[doc(alias = "rados_connect")]
    pub fn connect(&self) -> Result<Cluster> {
        let deadline = Deadline::after(self.connect_deadline);
        let workers = Arc::<Workers>::default();
        if self.connect_deadline.is_some() {
            // A thread starts while the configuration is read. Without it the connect starts one.
            let _ = workers.detach(|| ());
        }
        let unconnected = self.configure()?;
        let mon_host = unconnected.get("mon_host").unwrap_or_default();
        // librados says on the standard output what it cannot look up, and then waits.
        host_names(&mon_host)?;
        let connected = workers.run(deadline, move || {
            look_up(&mon_host)?;
            unconnected.connect().map_err(Failure::Errno)
        });
        let rados = match connected {
            Ok(Ok(rados)) => rados,
            Ok(Err(Failure::Errno(errno))) => return Err(self.connect_error(errno)),
            Ok(Err(Failure::Answer(error))) => return Err(error),
            Err(NoResult::TimedOut) => {
                return Err(self.connect_error(Errno::TIMED_OUT).with_details(Details::StillRunning));
            }
            Err(NoResult::NoThread(error)) => {
                return Err(no_thread(CONNECT, &format_args!("as {}", self.entity), error));
            }
        };
        let unthrottled = THROTTLES.iter().all(|(name, _)| rados.config(name).is_ok_and(|most| !is_not_zero(&most)));
        Ok(Cluster::new(Connection::new(rados, unthrottled), self.deadline))
    }

    fn configure(&self) -> Result<Unconnected> {
        if self.cluster_name.contains('\0') {
            return Err(
                Error::new(ErrorKind::InvalidInput, "use cluster name").with_object(self.cluster_name.escape_debug())
            );
        }
        let unconnected = Unconnected::create(&self.cluster_name, &self.entity).map_err(|errno| {
            Error::from_errno("use entity name", errno.0)
                .with_object(self.entity.escape_debug())
                .with_hint("an entity name is TYPE.ID, such as client.admin")
        })?;
        self.read_file(&unconnected)?;
        if !self.arguments.is_empty() {
            // Even without any it takes C a quarter of a millisecond.
            unconnected.parse_arguments(self.arguments.iter().map(Secret::expose)).map_err(arguments::error)?;
        }
        if self.options.iter().any(|(name, key)| name == "key" && key.expose().is_empty()) {
            // Ceph would take the keyring's key instead.
            return Err(Error::new(ErrorKind::InvalidInput, READ_KEY)
                .with_object(&self.entity)
                .with_hint("it is empty"));
        }
        for (name, value) in &self.options {
            set(&unconnected, name, value.expose())?;
        }
        for (name, path) in &self.key_files {
            // C asks the monitors without a key then.
            check_file(READ_KEY, path)?;
            set(&unconnected, name, &path.to_string_lossy())?;
        }
        if let Some(deadline) = self.connect_deadline {
            set(&unconnected, "client_mount_timeout", &whole_seconds(deadline))?;
        }
        if !unconnected.get("rados_mon_op_timeout").is_ok_and(|seconds| is_not_zero(&seconds)) {
            set(&unconnected, "rados_mon_op_timeout", &whole_seconds(self.mon_timeout))?;
        }
        if let Some(timeout) = self.osd_timeout {
            set(&unconnected, OSD_TIMEOUT, &whole_seconds(timeout))?;
        }
        if unconnected.get(OSD_TIMEOUT).is_ok_and(|seconds| is_not_zero(&seconds)) {
            // librbd's cache says of every write that all is well, and the flush after one that was given up says so
            // too.
            set(&unconnected, "rbd_cache", "false")?;
        }
        for (name, default) in THROTTLES {
            // Calls that wait for a silent OSD would hold up those to others, beyond their deadline.
            if unconnected.get(name).is_ok_and(|most| most == default) {
                set(&unconnected, name, "0")?;
            }
        }
        Ok(unconnected)
    }

    fn read_file(&self, unconnected: &Unconnected) -> Result<()> {
        let path = match &self.file {
            ConfigFile::None => return Ok(()),
            ConfigFile::Given(path) => Some(path.clone()),
            ConfigFile::Search if self.environment => std::env::var_os("CEPH_CONF").map(PathBuf::from),
            ConfigFile::Search => None,
        };
        let Some(path) = path else {
            return match unconnected.read_file(DEFAULT_FILES) {
                // None is there: everything may come from options.
                Ok(()) | Err(Errno::NOT_FOUND) => Ok(()),
                Err(errno) => {
                    Err(Error::from_errno(READ_FILE, errno.0).with_object(DEFAULT_FILES).with_hint(UNREADABLE))
                }
            };
        };
        // C takes a file that it cannot open for one that is absent, and a directory for an empty file.
        check_file(READ_FILE, &path)?;
        unconnected
            .read_file(&path.to_string_lossy())
            .map_err(|errno| Error::from_errno(READ_FILE, errno.0).with_object(path.display()).with_hint(UNREADABLE))
    }

    fn connect_error(&self, errno: Errno) -> Error {
        let error = Error::from_errno(CONNECT, errno.0).with_object(format_args!("as {}", self.entity));
        match error.kind() {
            ErrorKind::NotFound => error.with_hint("neither a configuration file nor mon_host names a monitor"),
            ErrorKind::PermissionDenied => error.with_hint(
                "the cluster does not know this user with this key, no key of the user was found, or it has no capability",
            ),
            ErrorKind::TimedOut => error.with_hint("no monitor answered: check mon_host and the network"),
            ErrorKind::InvalidInput => error.with_hint("the key or an address cannot be parsed"),
            _ if matches!(errno.0, libc::EIO | libc::EISDIR) => {
                error.with_kind(ErrorKind::InvalidInput).with_hint("the keyring or key file cannot be parsed")
            }
            _ => error,
        }
    }
}

/// Whether it is a file that can be read, and C would read this very one.
fn check_file(operation: &'static str, path: &Path) -> Result<()> {
    let error = |errno| Error::from_errno(operation, errno).with_object(path.display());
    if !is_one_path(path) {
        return Err(error(libc::EINVAL).with_hint("Ceph takes `,` and `;` for a list of paths and `$` for a variable"));
    }
    // What is looked at first is not opened if that could wait, as for a pipe.
    match std::fs::metadata(path) {
        Ok(file) if file.is_dir() => return Err(error(libc::EISDIR).with_kind(ErrorKind::InvalidInput)),
        Ok(file) if !file.is_file() => return Err(error(libc::EINVAL).with_hint("it is no regular file")),
        _ => {}
    }
    match std::fs::File::open(path) {
        Ok(_) => Ok(()),
        Err(cause) => Err(Error::from_io(operation, cause).with_object(path.display())),
    }
}

/// Looks the monitors' host names up, as librados will, to say which of them there is not.
fn look_up(mon_host: &str) -> Result<(), Failure> {
    for host in host_names(mon_host)? {
        (host, 0).to_socket_addrs().map_err(|error| {
            Error::new(ErrorKind::InvalidInput, "look up monitor")
                .with_object(host)
                .with_source(error)
                .with_hint("it is neither an IP address nor a known host name")
        })?;
    }
    Ok(())
}

fn set(unconnected: &Unconnected, name: &str, value: &str) -> Result<()> {
    // The value may be a secret: it is never part of the error.
    unconnected.set(name, value).map_err(|errno| {
        let error = Error::from_errno("set option", errno.0).with_object(name).with_kind(ErrorKind::InvalidInput);
        error.with_hint(match errno {
            Errno::NOT_FOUND => "Ceph knows no option of this name",
            _ => "Ceph does not take this value",
        })
    })
}

/// Whether librados itself gives up operations of objects, writes among them.
pub(crate) fn has_osd_timeout(rados: &RadosHandle) -> bool {
    rados.config(OSD_TIMEOUT).is_ok_and(|seconds| is_not_zero(&seconds))
}

/// Ceph's time-outs of the client count whole seconds, and zero means none.
fn whole_seconds(duration: Duration) -> String {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    // Ceph keeps some of them in an int.
    seconds.clamp(1, i32::MAX as u64).to_string()
}

/// Ceph prints the same zero as `0` or `0.000000`, and other values with or without a unit.
fn is_not_zero(seconds: &str) -> bool {
    seconds.contains(|c: char| matches!(c, '1'..='9'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_in_the_builders_debug() {
        let builder = ClusterBuilder::default().key(Secret::new("AQBsecret==")).option("key", "AQBsecret==");
        assert!(!format!("{builder:?}").contains("AQB"));
    }

    #[test]
    fn a_time_out_is_rounded_up_to_whole_seconds_and_never_to_none() {
        let seconds = [0, 1, 1000, 1500].map(|ms| whole_seconds(Duration::from_millis(ms)));
        assert_eq!(seconds, ["1", "1", "1", "2"]);
        assert_eq!(whole_seconds(Duration::MAX), i32::MAX.to_string());
    }

    #[test]
    fn a_time_out_is_told_from_none_in_every_spelling() {
        assert_eq!(["0", "0.000000", "", "0s"].map(is_not_zero), [false; 4]);
        assert_eq!(["2", "0.500000", "500ms"].map(is_not_zero), [true; 3]);
    }

    fn error_of(builder: &ClusterBuilder) -> Error {
        builder.configure().map(|_| ()).unwrap_err()
    }

    #[test]
    fn an_unknown_option_is_named_and_its_value_is_not() {
        let error = error_of(&ClusterBuilder::default().no_config_file().option("frobnicate", "AQBsecret"));
        assert_eq!((error.kind(), error.object()), (ErrorKind::InvalidInput, Some("frobnicate")));
        assert!(!format!("{error:?} {error}").contains("AQB"));
    }

    #[test]
    fn a_configuration_file_that_is_missing_says_its_path() {
        let error = error_of(&ClusterBuilder::default().config_file("/nonexistent/ceph.conf"));
        assert_eq!((error.kind(), error.object()), (ErrorKind::NotFound, Some("/nonexistent/ceph.conf")));
    }

    #[test]
    fn a_path_that_ceph_would_take_for_something_else_is_refused() {
        for path in ["/a,/b", "/a;/b", "/etc/ceph/$cluster.conf", ""] {
            let error = error_of(&ClusterBuilder::default().config_file(path));
            assert_eq!((error.kind(), error.object()), (ErrorKind::InvalidInput, Some(path)));
        }
    }

    #[test]
    fn a_directory_is_neither_configuration_file_nor_keyring() {
        let bare = || ClusterBuilder::default().no_config_file();
        for builder in [ClusterBuilder::default().config_file("/"), bare().keyring("/"), bare().key_file("/")] {
            let error = error_of(&builder);
            let says = (error.kind(), error.errno(), error.object());
            assert_eq!(says, (ErrorKind::InvalidInput, Some(libc::EISDIR), Some("/")));
        }
    }

    #[test]
    fn a_nul_is_blamed_on_the_name_that_has_it() {
        let error = error_of(&ClusterBuilder::default().cluster_name("ce\0ph"));
        assert_eq!((error.operation(), error.object()), ("use cluster name", Some("ce\\0ph")));
        let error = error_of(&ClusterBuilder::default().entity("client.\0"));
        assert_eq!((error.operation(), error.object()), ("use entity name", Some("client.\\0")));
    }

    #[test]
    fn an_entity_without_a_type_is_refused() {
        let error = error_of(&ClusterBuilder::default().entity("admin"));
        assert_eq!((error.kind(), error.object()), (ErrorKind::InvalidInput, Some("admin")));
    }
}
