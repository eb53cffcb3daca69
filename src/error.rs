//! One error for the whole library: what was done, to what, the errno, and a kind to match on.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::attach::Explanation;
use crate::feature::Features;
use crate::holder::Holders;
use crate::krbd::{Device, OptionDifference, Pending, Stage};
use crate::lock::LockOwner;
use crate::name::NameError;
#[cfg(feature = "librados")]
use crate::usage::Client;
use crate::watcher::Watcher;

/// The result of this library's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong: the operation, the object, the errno and a kind that the caller can match on.
///
/// Its text is one line that says what to do next where that is known:
///
/// ```text
/// open image kube/pvc-9: not found (errno 2)
/// ```
///
/// `{:#}` adds the errors that caused it, and so does `{:?}`, which a `main` that returns it and `unwrap` print.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    operation: Cow<'static, str>,
    object: Option<String>,
    errno: Option<i32>,
    stage: Option<Stage>,
    details: Details,
    hint: Option<Cow<'static, str>>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What kind of failure an [`Error`] is. What belongs to a kind is in [`Error::details`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ErrorKind {
    /// The pool, image, snapshot, object or key does not exist (ENOENT).
    NotFound,
    /// It exists already (EEXIST).
    AlreadyExists,
    /// The user's capabilities, the key or the file mode forbid it (EPERM, EACCES).
    PermissionDenied,
    /// Somebody uses it (EBUSY); [`Details::Watchers`] says who, where that is known.
    Busy,
    /// A write to a snapshot, to a handle opened read-only, or against another's lock (EROFS).
    ReadOnly,
    /// The deadline passed, or the cluster said so (ETIMEDOUT). The text says what may still happen.
    TimedOut,
    /// This client is on the cluster's blocklist (ESHUTDOWN, 108); only a new connection helps.
    Blocklisted,
    /// The installed Ceph library or the cluster does not have it (EOPNOTSUPP, ENOSYS).
    Unsupported,
    /// A name that Ceph or the kernel cannot take, or would take for something else.
    InvalidName,
    /// An argument, a configuration file or an option that makes no sense (EINVAL).
    InvalidInput,
    /// Other features must be changed first; [`Details::Features`] says which.
    FeatureDependency,
    /// Features that can never be changed on this image; [`Details::Features`] says which.
    FeatureImmutable,
    /// Another client holds the image's lock and does not give it up; [`Details::LockOwners`] says who.
    LockHeld,
    /// The state is no longer the one that the caller acted upon.
    Changed,
    /// An answer that could not be understood: the cluster, a file or the kernel said something unknown.
    InvalidData,
    /// The handle cannot be used: it was closed, or it was inherited through `fork`.
    NotConnected,
    /// The caller's callback stopped the operation (ECANCELED).
    Cancelled,
    /// The kernel's rbd module is not loaded, so there is nothing to map with and nothing to list.
    ModuleNotLoaded,
    /// This process may not map and unmap on this host (EPERM, EACCES): it is not root, or root in a container.
    NotPrivileged,
    /// `/sys` is mounted read-only (EROFS), as in a container: it says nothing of the image.
    SysfsReadOnly,
    /// There is no such mapping.
    NotMapped,
    /// An unmap of this device is under way already (EINPROGRESS).
    AlreadyRemoving,
    /// A block device, but not one of the kernel's rbd driver.
    NotRbdDevice,
    /// Not a block device at all, such as a regular file in `/dev`.
    NotBlockDevice,
    /// Several mappings are meant and one was wanted; [`Details::Devices`] lists them.
    Ambiguous,
    /// No monitor has an address for the protocol that the kernel would speak.
    NoMonitor,
    /// The kernel lacks features of the image (ENXIO).
    FeatureMismatch,
    /// A map option that is for images with a certain feature only; [`Details::Features`] says which.
    OptionNeedsFeature,
    /// The image is mapped with other options; [`Details::Options`] says which.
    OptionsDiffer,
    /// It is mapped, as the device in [`Details::Devices`], but the device node is missing or another's.
    NodeUnusable,
    /// Each device has a major number of its own, and there are none left (EBUSY).
    OutOfMajors,
    /// Any other errno; [`Error::errno`] has it.
    Other,
}

/// What belongs to an [`ErrorKind`], as types.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Details {
    /// Nothing beyond the kind.
    None,
    /// Who watches the image or object that is busy.
    Watchers(Vec<Watcher>),
    /// Who holds the image's lock.
    LockOwners(Vec<LockOwner>),
    /// Who uses the image.
    #[cfg(feature = "librados")]
    Clients(Vec<Client>),
    /// The features in the way.
    Features(Features),
    /// What is wrong with a name.
    Name(NameError),
    /// A C function that the installed library lacks.
    MissingFunction {
        /// The function's name, such as `rbd_diff_iterate3`.
        function: &'static str,
        /// The first Ceph release that has it, such as `18.2`.
        since: &'static str,
    },
    /// The deadline passed while the call was still under way in the C library: it goes on without its caller.
    StillRunning,
    /// The deadline passed while the kernel was mapping: it goes on without its caller.
    PendingMap(Pending<Device>),
    /// The deadline passed while the kernel was unmapping: it goes on without its caller.
    PendingUnmap(Pending<()>),
    /// The mappings that it is about.
    Devices(Vec<Device>),
    /// The options in which a mapping differs from what was asked for.
    Options(Vec<OptionDifference>),
    /// How often it was tried.
    Attempts(u32),
    /// What may stand behind the kernel's errno.
    Explanation(Box<Explanation>),
    /// Who keeps a device busy that could not be unmapped, and how often that was tried.
    Holders {
        /// How often the kernel said that it is busy.
        attempts: u32,
        /// Who it is, as far as could be seen after the last of them.
        holders: Box<Holders>,
    },
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, operation: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            operation: operation.into(),
            object: None,
            errno: None,
            stage: None,
            details: Details::None,
            hint: None,
            source: None,
        }))
    }

    /// The error of a call that failed with `errno`, of either sign.
    pub(crate) fn from_errno(operation: impl Into<Cow<'static, str>>, errno: i32) -> Self {
        let errno = errno.saturating_abs();
        let mut error = Self::new(ErrorKind::from_errno(errno), operation);
        error.0.errno = Some(errno);
        error
    }

    /// The error of a failed call of the standard library.
    pub(crate) fn from_io(operation: impl Into<Cow<'static, str>>, error: std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self::from_errno(operation, errno),
            None => Self::new(ErrorKind::from_io(error.kind()), operation).with_source(error),
        }
    }

    pub(crate) fn at(mut self, stage: Stage) -> Self {
        self.0.stage = Some(stage);
        self
    }

    pub(crate) fn with_object(mut self, object: impl fmt::Display) -> Self {
        self.0.object = Some(object.to_string());
        self
    }

    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    pub(crate) fn with_details(mut self, details: Details) -> Self {
        self.0.details = details;
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The kind, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was done, such as `open image`.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// What it was done to, such as `kube/pvc-1`.
    pub fn object(&self) -> Option<&str> {
        self.0.object.as_deref()
    }

    /// The errno (positive), where a C library, the cluster or the kernel gave one. Codes that this library does not
    /// know are kept.
    pub fn errno(&self) -> Option<i32> {
        self.0.errno
    }

    /// How far a map or an unmap by the kernel's driver had come; `None` for everything else.
    pub fn stage(&self) -> Option<Stage> {
        self.0.stage
    }

    /// What belongs to the kind.
    pub fn details(&self) -> &Details {
        &self.0.details
    }

    /// What to do next, where that is known; of a command that was refused, the cluster's own text as it came.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl ErrorKind {
    /// The kind of a (positive) errno of the C libraries.
    pub(crate) fn from_errno(errno: i32) -> Self {
        match errno {
            libc::ENOENT => Self::NotFound,
            libc::EEXIST => Self::AlreadyExists,
            libc::EPERM | libc::EACCES => Self::PermissionDenied,
            libc::EBUSY => Self::Busy,
            libc::EROFS => Self::ReadOnly,
            libc::ETIMEDOUT => Self::TimedOut,
            // librados.h: EBLOCKLISTED is ESHUTDOWN.
            libc::ESHUTDOWN => Self::Blocklisted,
            libc::EOPNOTSUPP | libc::ENOSYS => Self::Unsupported,
            libc::EINVAL | libc::EDOM => Self::InvalidInput,
            libc::ENOTCONN => Self::NotConnected,
            libc::ECANCELED => Self::Cancelled,
            _ => Self::Other,
        }
    }

    /// The kind of an error of the standard library's that has no errno.
    fn from_io(kind: std::io::ErrorKind) -> Self {
        use std::io::ErrorKind as Io;
        match kind {
            Io::NotFound => Self::NotFound,
            Io::PermissionDenied => Self::PermissionDenied,
            Io::InvalidInput => Self::InvalidInput,
            Io::InvalidData | Io::UnexpectedEof => Self::InvalidData,
            Io::Unsupported => Self::Unsupported,
            Io::TimedOut => Self::TimedOut,
            _ => Self::Other,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "not found",
            Self::AlreadyExists => "exists already",
            Self::PermissionDenied => "permission denied",
            Self::Busy => "busy",
            Self::ReadOnly => "read-only",
            Self::TimedOut => "timed out",
            Self::Blocklisted => "this client is blocklisted",
            Self::Unsupported => "not supported",
            Self::InvalidName => "invalid name",
            Self::InvalidInput => "invalid argument",
            Self::FeatureDependency => "other features must be changed first",
            Self::FeatureImmutable => "features cannot be changed",
            Self::LockHeld => "another client holds the lock",
            Self::Changed => "changed meanwhile",
            Self::InvalidData => "answer not understood",
            Self::NotConnected => "not connected",
            Self::Cancelled => "cancelled",
            Self::ModuleNotLoaded => "the kernel's rbd module is not loaded",
            Self::NotPrivileged => "not privileged",
            Self::SysfsReadOnly => "/sys is read-only",
            Self::NotMapped => "not mapped",
            Self::AlreadyRemoving => "already being unmapped",
            Self::NotRbdDevice => "not an rbd device",
            Self::NotBlockDevice => "not a block device",
            Self::Ambiguous => "more than one mapping",
            Self::NoMonitor => "no monitor for this protocol",
            Self::FeatureMismatch => "the kernel lacks features of the image",
            Self::OptionNeedsFeature => "an option needs a feature of the image",
            Self::OptionsDiffer => "mapped with other options",
            Self::NodeUnusable => "mapped, but the device node cannot be used",
            Self::OutOfMajors => "no major number left",
            Self::Other => "failed",
        }
    }
}

/// A few words, such as `not found`: what stands in the text of an [`Error`].
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        f.write_str(&inner.operation)?;
        if let Some(object) = &inner.object {
            f.write_str(" ")?;
            write_in_line(f, object)?;
        }
        write!(f, ": {}", inner.kind)?;
        inner.details.append(f)?;
        match inner.errno {
            Some(errno) if inner.kind == ErrorKind::Other => {
                let text = std::io::Error::from_raw_os_error(errno).to_string();
                let text = text.split(" (os error").next().unwrap_or_default();
                write!(f, ": {text} (errno {errno})")?;
            }
            Some(errno) => write!(f, " (errno {errno})")?,
            None => {}
        }
        if let Some(source) = inner.source.as_ref().filter(|_| f.alternate()) {
            write!(f, ": {source:#}")?;
        }
        if let Some(hint) = &inner.hint {
            f.write_str("; ")?;
            write_in_line(f, hint)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

/// Writes what was named, or what a daemon said, in one line whatever is in it: names may hold line breaks and marks
/// that turn text round.
fn write_in_line(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    const SHOWN: usize = 512;
    for c in text.chars().take(SHOWN) {
        match c {
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => write!(f, "{}", c.escape_unicode())?,
            c if c.is_control() => write!(f, "{}", c.escape_default())?,
            c => f.write_char(c)?,
        }
    }
    if text.chars().nth(SHOWN).is_some() { f.write_str("…") } else { Ok(()) }
}

impl Details {
    /// Adds to the text of the kind what is known beyond it.
    fn append(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Watchers(watchers) => append_list(f, ", watched by ", watchers),
            Self::LockOwners(owners) => append_list(f, ": ", owners),
            #[cfg(feature = "librados")]
            Self::Clients(clients) => append_list(f, ", used by ", clients),
            Self::Features(features) => write!(f, ": {features}"),
            Self::Name(name) => write!(f, ": {name}"),
            Self::MissingFunction { function, since } => {
                write!(f, ": {function} is missing, it came with Ceph {since}")
            }
            Self::StillRunning => f.write_str(", and the call goes on in the background"),
            Self::PendingMap(_) | Self::PendingUnmap(_) => f.write_str(", and the kernel goes on in the background"),
            Self::Devices(devices) => append_list(f, ": ", devices),
            Self::Options(differences) => append_list(f, ": ", differences),
            Self::Holders { attempts, holders } => {
                write!(f, " after {attempts} attempts")?;
                append_list(f, ", held by ", &holders.iter().collect::<Vec<_>>())
            }
            Self::Explanation(explanation) => match explanation.causes.first() {
                Some(cause) => write!(f, ", {cause}"),
                None => Ok(()),
            },
            Self::Attempts(attempts) => write!(f, " after {attempts} attempts"),
        }
    }
}

fn append_list(f: &mut fmt::Formatter<'_>, before: &str, items: &[impl fmt::Display]) -> fmt::Result {
    for (n, item) in items.iter().enumerate() {
        f.write_str(if n == 0 { before } else { ", " })?;
        write!(f, "{item}")?;
    }
    Ok(())
}

/// For arguments that take a name as text, or as a value whose conversion cannot fail.
impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::LockMode;

    #[test]
    fn a_busy_image_names_its_watchers() {
        let watchers = vec![
            "192.0.2.1:0/7 client.4235 cookie=1".parse().unwrap(),
            "192.0.2.2:0/8 client.4236 cookie=2".parse().unwrap(),
        ];
        let error = Error::from_errno("remove image", -libc::EBUSY)
            .with_object("kube/pvc-9")
            .with_details(Details::Watchers(watchers));
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, Some(16)));
        assert_eq!(
            error.to_string(),
            "remove image kube/pvc-9: busy, watched by 192.0.2.1:0/7 client.4235 cookie=1, \
             192.0.2.2:0/8 client.4236 cookie=2 (errno 16)"
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_kind_and_a_stage_are_words_in_json() {
        assert_eq!(serde_json::to_string(&ErrorKind::ModuleNotLoaded).unwrap(), r#""module_not_loaded""#);
        assert_eq!(serde_json::to_string(&Stage::AddKey).unwrap(), r#""add_key""#);
    }

    #[test]
    fn an_error_is_one_line_whatever_was_named() {
        let error = Error::from_errno("open pool", libc::ENOENT).with_object("a\nb\u{202e}c\u{7}");
        assert_eq!(error.to_string(), "open pool a\\nb\\u{202e}c\\u{7}: not found (errno 2)");
        let told = Error::from_errno("look up key", libc::EINVAL).with_hint("invalid entity_auth a\n\0");
        assert_eq!(told.to_string(), "look up key: invalid argument (errno 22); invalid entity_auth a\\n\\u{0}");
        assert_eq!(told.hint(), Some("invalid entity_auth a\n\0"));
        let long = Error::from_errno("open pool", libc::ENOENT).with_object("x".repeat(4096));
        assert_eq!(long.to_string(), format!("open pool {}…: not found (errno 2)", "x".repeat(512)));
    }

    #[test]
    fn a_program_that_returns_it_from_main_ends_with_one_clear_line() {
        let cause = std::io::Error::other("it went away");
        let error = Error::new(ErrorKind::InvalidInput, "look up monitor").with_object("a").with_source(cause);
        assert_eq!(format!("{error:?}"), "look up monitor a: invalid argument: it went away");
        assert_eq!(format!("{:#?}", Some(&error)), "Some(\n    look up monitor a: invalid argument: it went away,\n)");
    }

    #[test]
    fn an_error_without_an_errno_has_a_kind_too() {
        let kind = |kind: std::io::ErrorKind| Error::from_io("read", kind.into()).kind();
        assert_eq!(kind(std::io::ErrorKind::NotFound), ErrorKind::NotFound);
        assert_eq!(kind(std::io::ErrorKind::InvalidData), ErrorKind::InvalidData);
        assert_eq!(kind(std::io::ErrorKind::WriteZero), ErrorKind::Other);
        assert_eq!(ErrorKind::InvalidData.to_string(), "answer not understood");
    }

    #[test]
    fn a_held_lock_names_its_owner() {
        let owners = vec![LockOwner::new(LockMode::Exclusive, "192.0.2.1:0/7")];
        let error = Error::from_errno("disable features", libc::EROFS)
            .with_kind(ErrorKind::LockHeld)
            .with_details(Details::LockOwners(owners));
        assert_eq!(error.to_string(), "disable features: another client holds the lock: 192.0.2.1:0/7 (errno 30)");
    }
}
