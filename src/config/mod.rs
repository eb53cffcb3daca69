//! ceph.conf and keyrings, read without librados: what a map through the kernel needs of them.

mod expand;
mod file;

use std::fmt;
use std::fs;
use std::path::Path;

use zeroize::Zeroizing;

use crate::address::MonitorAddresses;
use crate::error::{Error, ErrorKind, Result};
use crate::fsid::Fsid;
use crate::krbd::Credentials;
use crate::secret::Secret;
use file::File;

/// Where a key is looked for if the configuration does not say (Ceph's default of `keyring`).
const KEYRINGS: &str =
    "/etc/ceph/$cluster.$name.keyring,/etc/ceph/$cluster.keyring,/etc/ceph/keyring,/etc/ceph/keyring.bin";

/// A configuration file as one user sees it, without librados.
///
/// An option is looked for in the sections `[client.USER]`, `[client]` and `[global]`, in this order, in any spelling
/// (`mon host`, `mon_host`, `mon-host`). In values, `$cluster`, `$type`, `$id`, `$name`, `$host`, `$pid`, `$home` and
/// the names of other options, with or without braces, are replaced. The monitors' own configuration database, the
/// environment and command lines are not looked at.
///
/// ```no_run
/// use rbd::config::Config;
/// use rbd::krbd::{Krbd, MapRequest};
///
/// let config = Config::read("/etc/ceph/ceph.conf")?.user("kube");
/// let request = MapRequest::new(config.monitors()?, config.credentials()?, "kube/pvc-1".parse()?);
/// let device = Krbd::new().map(&request)?;
/// # Ok::<(), rbd::Error>(())
/// ```
#[derive(Clone)]
pub struct Config {
    file: File,
    cluster: String,
    user: String,
}

impl Config {
    /// Reads a file. The cluster's name is that of the file without `.conf`, as `ceph` for `ceph.conf`.
    ///
    /// # Errors
    ///
    /// The errno of reading it; `InvalidInput` for a line that makes no sense, and for what is no text.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let config = Self::parse(&read(path)?).map_err(|error| in_file(error, path))?;
        let name =
            path.file_stem().and_then(|stem| stem.to_str()).filter(|_| path.extension() == Some("conf".as_ref()));
        Ok(match name {
            Some(name) => config.cluster(name),
            None => config,
        })
    }

    /// From the text of such a file, for the user `admin` of the cluster `ceph`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a line that makes no sense.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { file: File::parse(text)?, cluster: "ceph".to_owned(), user: "admin".to_owned() })
    }

    /// As this user sees it, without `client.`; `admin` if this is not called.
    #[must_use]
    pub fn user(self, user: impl Into<String>) -> Self {
        Self { user: user.into(), ..self }
    }

    /// What `$cluster` stands for.
    #[must_use]
    pub fn cluster(self, cluster: impl Into<String>) -> Self {
        Self { cluster: cluster.into(), ..self }
    }

    fn name(&self) -> String {
        format!("client.{}", self.user)
    }

    /// The value of an option, with what `$` stands for put in; `None` if the file does not have it.
    pub fn get(&self, option: &str) -> Option<String> {
        self.raw(option).map(|value| self.expand(value))
    }

    fn raw(&self, option: &str) -> Option<&str> {
        [self.name().as_str(), "client", "global"].iter().find_map(|section| self.file.get(section, option))
    }

    fn expand(&self, value: &str) -> String {
        expand::expand(value, &|name| match name {
            "cluster" => Some(self.cluster.clone()),
            "type" => Some("client".to_owned()),
            "id" => Some(self.user.clone()),
            "name" => Some(self.name()),
            "host" => fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| short_name(&name)),
            "pid" => Some(std::process::id().to_string()),
            "home" => std::env::var("HOME").ok(),
            option => self.raw(option).map(str::to_owned),
        })
    }

    /// The monitors, from `mon_host`, or else from `mon_addr` in the sections `[mon.NAME]`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: there are none, or what there is are no addresses; host names are not looked up.
    pub fn monitors(&self) -> Result<MonitorAddresses> {
        if let Some(hosts) = self.get("mon_host").filter(|hosts| !hosts.trim().is_empty()) {
            return hosts.parse();
        }
        let sections = self.file.section_names().filter(|name| name.starts_with("mon."));
        let addresses: Vec<_> = sections.filter_map(|name| self.file.get(name, "mon_addr")).collect();
        if addresses.is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "read monitors")
                .with_object("of configuration")
                .with_hint("it has neither mon_host nor mon_addr"));
        }
        addresses.join(",").parse()
    }

    /// The cluster's identity, if the file has it.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: it is no UUID.
    pub fn fsid(&self) -> Result<Option<Fsid>> {
        self.get("fsid").filter(|fsid| !fsid.is_empty()).map(|fsid| fsid.parse()).transpose()
    }

    /// The user and its key: from `key`, from the file that `keyfile` names, or from the first of the files that
    /// `keyring` names that is there (by default those in `/etc/ceph`). Without a key where `auth_client_required` is
    /// `none`.
    ///
    /// # Errors
    ///
    /// `NotFound`: no such file is there, or the keyring does not have the user; the errno of reading a file.
    pub fn credentials(&self) -> Result<Credentials> {
        let keyrings = self.expand(self.raw("keyring").filter(|list| !list.is_empty()).unwrap_or(KEYRINGS));
        let option = |name: &str| match name {
            // No part of a key stands for anything else.
            "key" => self.raw(name).map(str::to_owned),
            "keyring" => Some(keyrings.clone()),
            _ => self.get(name),
        };
        configured_credentials(&self.user, option)?.ok_or_else(|| {
            Error::from_errno("read key", libc::ENOENT)
                .with_object(format!("of {}", self.name()))
                .with_hint(format!("none of {keyrings} is there"))
        })
    }

    /// The user and its key, from this keyring.
    ///
    /// # Errors
    ///
    /// `NotFound`: it does not have the user, or is not there; `InvalidInput`: it is no keyring.
    pub fn credentials_in(&self, keyring: impl AsRef<Path>) -> Result<Credentials> {
        let path = keyring.as_ref();
        let file = File::parse(&read(path)?).map_err(|error| in_file(error, path))?;
        match file.get(&self.name(), "key") {
            Some(key) => Ok(Credentials::new(&self.user, Secret::new(key))),
            None => Err(Error::new(ErrorKind::NotFound, "read key")
                .with_object(format!("of {}", self.name()))
                .with_hint(format!("{} does not have it", path.display()))),
        }
    }
}

/// The user and its key by the options `key`, `keyfile` and `keyring`, in this order; `None` if none of the keyrings is
/// there.
pub(crate) fn configured_credentials(
    user: &str,
    option: impl Fn(&str) -> Option<String>,
) -> Result<Option<Credentials>> {
    let option = |name| option(name).filter(|value| !value.is_empty());
    if option("auth_client_required").is_some_and(|required| required.trim() == "none") {
        return Ok(Some(Credentials::without_key(user)));
    }
    if let Some(key) = option("key") {
        return Ok(Some(Credentials::new(user, Secret::new(key))));
    }
    if let Some(path) = option("keyfile") {
        return Ok(Some(Credentials::new(user, Secret::new(read(Path::new(&path))?.as_str()))));
    }
    let keyrings = option("keyring").unwrap_or_default();
    let mut paths = keyrings.split([',', ';', ' ']).filter(|path| !path.is_empty()).map(Path::new);
    match paths.find(|path| path.exists()) {
        Some(path) => Config::parse("")?.user(user).credentials_in(path).map(Some),
        None => Ok(None),
    }
}

/// The host's name up to its first dot.
fn short_name(name: &str) -> String {
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

fn read(path: &Path) -> Result<Zeroizing<String>> {
    let text = fs::read_to_string(path).map(Zeroizing::new);
    text.map_err(|error| {
        let failed = Error::from_io("read", error).with_object(path.display());
        match failed.kind() {
            ErrorKind::InvalidData => failed.with_kind(ErrorKind::InvalidInput).with_hint("it is not UTF-8"),
            _ => failed,
        }
    })
}

fn in_file(error: Error, path: &Path) -> Error {
    let object = format!("{} {}", path.display(), error.object().unwrap_or_default());
    error.with_object(object)
}

impl fmt::Debug for Config {
    /// Without the values: one of them may be a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, cluster, user } = self;
        f.debug_struct("Config").field("cluster", cluster).field("user", user).field("sections", file).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Protocol;

    const KEY: &str = "AQBRHFNlAAAAABAAo9K/oNuuDNdSqbRnkTIWhw==";

    #[test]
    fn the_users_section_comes_before_the_clients_and_the_global_one() {
        let text = "[global]\na = 1\nb = 1\nc = 1\n[client]\nb = 2\nc = 2\n[client.kube]\nc = 3\n[mon]\na = 4\n";
        let config = Config::parse(text).unwrap().user("kube");
        assert_eq!(
            ["a", "b", "c", "d"].map(|option| config.get(option)),
            [Some("1".into()), Some("2".into()), Some("3".into()), None]
        );
        assert_eq!(config.user("other").get("c").as_deref(), Some("2"));
    }

    #[test]
    fn monitors_are_read_in_any_spelling() {
        for spelling in ["mon host", "mon_host", "mon-host"] {
            let config =
                Config::parse(&format!("[global]\n{spelling} = [v2:192.0.2.1:3300,v1:192.0.2.1:6789]\n")).unwrap();
            let monitors = config.monitors().unwrap().for_protocol(Protocol::V1).unwrap();
            assert_eq!(monitors, ["192.0.2.1:6789".parse().unwrap()]);
        }
        let config = Config::parse("[mon.a]\nmon addr = 192.0.2.1:6789\n[mon.b]\nmon addr = 192.0.2.2\n").unwrap();
        assert_eq!(config.monitors().unwrap().monitors().len(), 2);
        assert_eq!(Config::parse("[global]\n").unwrap().monitors().unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn variables_are_replaced() {
        let text = "[global]\nrun dir = /run/$cluster\nkeyring = ${run_dir}/$cluster.$name.keyring\nloop = $loop\n";
        let config = Config::parse(text).unwrap().cluster("prod").user("kube");
        assert_eq!(config.get("keyring").unwrap(), "/run/prod/prod.client.kube.keyring");
        assert_eq!(config.get("loop").unwrap(), "$loop");
    }

    #[test]
    fn the_key_comes_from_key_keyfile_or_the_first_keyring_that_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("k.keyring"), format!("[client.kube]\n\tkey = {KEY}\n\tcaps mon = \"allow r\"\n")).unwrap();
        fs::write(path("secret"), format!("{KEY}\n")).unwrap();
        let expected = Credentials::new("kube", Secret::new(KEY));
        let dir = directory.path().display();
        for line in [
            format!("key = {KEY}"),
            format!("keyfile = {dir}/secret"),
            format!("keyring = {dir}/absent, {dir}/k.keyring"),
        ] {
            let config = Config::parse(&format!("[client]\n{line}\n")).unwrap();
            assert_eq!(config.user("kube").credentials().unwrap(), expected, "{line}");
        }
        let config = Config::parse(&format!("[client]\nkeyring = {dir}/k.keyring\n")).unwrap();
        assert_eq!(config.credentials().unwrap_err().kind(), ErrorKind::NotFound);
        let config = Config::parse(&format!("[client]\nkeyring = {dir}/absent\n")).unwrap();
        assert_eq!(config.credentials().unwrap_err().kind(), ErrorKind::NotFound);
        let config = Config::parse("[global]\nauth client required = none\n").unwrap();
        assert_eq!(config.credentials().unwrap(), Credentials::without_key("admin"));
    }

    #[test]
    fn debug_shows_no_value() {
        let config = Config::parse(&format!("[global]\nkey = {KEY}\n")).unwrap();
        let shown = r#"Config { cluster: "ceph", user: "admin", sections: ["global"] }"#;
        assert_eq!(format!("{config:?}"), shown);
    }

    #[test]
    fn the_cluster_is_called_as_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prod.conf");
        fs::write(&path, "[global]\na = $cluster\n").unwrap();
        assert_eq!(Config::read(&path).unwrap().get("a").unwrap(), "prod");
        fs::write(&path, "[global]\nx\n").unwrap();
        let error = Config::read(&path).unwrap_err();
        assert_eq!(error.object().unwrap(), format!("{} line 2", path.display()));
        assert_eq!(Config::read(directory.path().join("none.conf")).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(&path, b"[global]\nx = \xff\n").unwrap();
        let error = Config::read(&path).unwrap_err();
        assert_eq!((error.kind(), error.hint()), (ErrorKind::InvalidInput, Some("it is not UTF-8")));
    }
}
