//! What is written to the kernel to map: the one place that puts it together.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use zeroize::Zeroizing;

use super::failure::Stage;
use super::option::{MapOption, MsMode};
use super::origin::Origin;
use super::request::MapRequest;
use crate::address::Protocol;
use crate::error::{Error, ErrorKind, Result};
use crate::name::KERNEL_WRITE_LIMIT;
use crate::secret::Secret;

/// How the kernel gets the key.
pub(super) enum KeyWord<'a> {
    /// Not at all.
    None,
    /// By the name `client.USER` in the writing thread's keyrings.
    Keyring,
    /// In the string; it was decoded, so it is base64 and nothing else.
    Secret(&'a Secret),
}

/// What can be said before the key is handed over: monitors, options and names, checked.
pub(super) struct AddString<'a> {
    monitors: Vec<SocketAddr>,
    mode: Option<MsMode>,
    request: &'a MapRequest,
}

impl<'a> AddString<'a> {
    pub(super) fn new(request: &'a MapRequest, kernel: Option<(u32, u32)>) -> Result<Self> {
        check_names(request).map_err(|error| error.at(Stage::Preflight))?;
        let (mode, monitors) = choose_monitors(request, kernel).map_err(|error| error.at(Stage::Preflight))?;
        Ok(Self { monitors, mode, request })
    }

    /// `MONITORS OPTIONS POOL IMAGE SNAPSHOT ORIGIN`, which the kernel splits at blanks, and the options at commas.
    pub(super) fn with_key(&self, key: &KeyWord<'_>, origin: &Origin) -> Result<Zeroizing<String>> {
        let MapRequest { credentials, spec, options, .. } = self.request;
        // Of the full length from the start: a string that grows leaves copies of the secret behind.
        let mut text = Zeroizing::new(String::with_capacity(2 * KERNEL_WRITE_LIMIT));
        for (n, monitor) in self.monitors.iter().enumerate() {
            push(&mut text, format_args!("{}{monitor}", if n == 0 { "" } else { "," }));
        }
        let user = &credentials.user;
        push(&mut text, format_args!(" name={user}"));
        match key {
            KeyWord::None => {}
            KeyWord::Keyring => push(&mut text, format_args!(",key={}", key_name(user))),
            KeyWord::Secret(secret) => push(&mut text, format_args!(",secret={}", secret.expose())),
        }
        for option in options.for_kernel() {
            push(&mut text, format_args!(",{option}"));
        }
        if let Some(mode) = self.mode {
            push(&mut text, format_args!(",{}", MapOption::MsMode(mode)));
        }
        if let Some(namespace) = spec.namespace() {
            push(&mut text, format_args!(",_pool_ns={namespace}"));
        }
        let pool = spec.pool().ok_or_else(|| no_pool(self.request))?;
        push(&mut text, format_args!(" {pool} {} ", spec.image()));
        match spec.snapshot() {
            Some(snapshot) => push(&mut text, format_args!("{snapshot}")),
            None => text.push('-'),
        }
        push(&mut text, format_args!(" {origin}"));
        if text.len() > KERNEL_WRITE_LIMIT {
            return Err(Error::new(ErrorKind::InvalidInput, "map image")
                .with_object(spec)
                .with_hint(format!("the request has {} bytes and the kernel takes {KERNEL_WRITE_LIMIT}", text.len()))
                .at(Stage::Preflight));
        }
        Ok(text)
    }
}

fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(what);
}

/// What a user's key is called in the kernel's keyrings.
pub(super) fn key_name(user: &str) -> String {
    format!("client.{user}")
}

fn no_pool(request: &MapRequest) -> Error {
    Error::new(ErrorKind::InvalidName, "map image").with_object(&request.spec).with_hint("the spec names no pool")
}

/// Nothing may end a token or an option early, or begin another.
fn check_names(request: &MapRequest) -> Result<()> {
    request.credentials.key_type()?;
    request.spec.check_for_kernel()?;
    if request.spec.pool().is_none() {
        return Err(no_pool(request));
    }
    let user = &request.credentials.user;
    if user.is_empty() || user.chars().any(|c| c == ',' || c.is_whitespace() || c.is_control()) {
        return Err(Error::new(ErrorKind::InvalidName, "map image")
            .with_object(&request.spec)
            .with_hint(format!("the kernel cannot be told the user name {user:?}")));
    }
    Ok(())
}

/// The mode to add to the options, if none is among them and one must be, and the addresses that speak it.
fn choose_monitors(request: &MapRequest, kernel: Option<(u32, u32)>) -> Result<(Option<MsMode>, Vec<SocketAddr>)> {
    // Linux 5.11 brought msgr2; what cannot be read is taken for newer.
    let has_msgr2 = kernel.is_none_or(|version| version >= (5, 11));
    let addresses = |protocol| request.monitors.for_protocol(protocol).unwrap_or_default();
    let (mode, monitors) = match request.options.get("ms_mode") {
        Some(MapOption::MsMode(mode)) if mode.is_msgr2() => (None, addresses(Protocol::V2)),
        Some(_) => (None, addresses(Protocol::V1)),
        None => match addresses(Protocol::V1) {
            none if none.is_empty() && has_msgr2 => (Some(MsMode::PreferCrc), addresses(Protocol::V2)),
            legacy => (None, legacy),
        },
    };
    if monitors.is_empty() {
        let mode = match request.options.get("ms_mode") {
            Some(mode) => mode.to_string(),
            None => "ms_mode=legacy, the only one that this kernel knows".to_owned(),
        };
        return Err(Error::new(ErrorKind::NoMonitor, "map image")
            .with_object(&request.spec)
            .with_hint(format!("no monitor of {} speaks what {mode} needs", request.monitors)));
    }
    Ok((mode, monitors))
}

/// The kernel's version, of which `/proc` has `6.1.0-57-amd64` or the like.
pub(super) fn kernel_version(proc: &Path) -> Option<(u32, u32)> {
    let release = std::fs::read_to_string(proc.join("sys/kernel/osrelease")).ok()?;
    let mut numbers = release.trim_end().split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
