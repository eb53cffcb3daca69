//! Opening and closing.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::Errno;
use crate::ffi::image::{Find, ImageHandle};
use crate::name::{ImageId, ImageName, ImageSpec, SnapshotName};
use crate::rados::builder::has_osd_timeout;
use crate::rados::connection::Failure;
use crate::rados::{Cluster, Pool};

/// An open image. Clones share the handle; the image is closed when the last of them is gone.
///
/// An image that is open read-write watches its own header object, and so is seen by everybody as a user of the image;
/// one that is open read-only is not. What others change (its size, features, snapshots) reaches a read-write handle
/// only: a read-only one says for ever what was so when it was opened. Watchers and locks are asked for each time.
///
/// See the [table](crate::rados#handles) for threads and closing, and [there](crate::rados#errors) for what every call
/// may fail with.
#[derive(Debug, Clone)]
pub struct Image {
    pub(super) pool: Pool,
    pub(super) handle: Arc<ImageHandle>,
    /// How errors name it.
    pub(super) label: Arc<str>,
    pub(super) snapshot: Option<SnapshotName>,
    pub(super) read_only: bool,
    pub(super) deadline: Option<Duration>,
    /// Whether a write can be lost and nobody told: see `io`.
    pub(super) write_untold: bool,
    /// Set once librados has given up a write: see `io`.
    pub(super) write_lost: Arc<AtomicBool>,
}

impl Pool {
    /// Opens an image to read. It does not become a watcher of it, and so does not learn of later changes.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `NotFound`, `PermissionDenied`, `TimedOut`, `Blocklisted`.
    #[doc(alias = "rbd_open_read_only")]
    pub fn open_read_only<N>(&self, name: N) -> Result<Image>
    where
        N: TryInto<ImageName>,
        Error: From<N::Error>,
    {
        self.open_image(Key::Name(name.try_into()?), None, true)
    }

    /// Opens an image to read and write. The handle is a watcher of the image.
    ///
    /// # Errors
    ///
    /// As [`open_read_only`](Self::open_read_only).
    #[doc(alias = "rbd_open")]
    pub fn open<N>(&self, name: N) -> Result<Image>
    where
        N: TryInto<ImageName>,
        Error: From<N::Error>,
    {
        self.open_image(Key::Name(name.try_into()?), None, false)
    }

    /// Opens a snapshot of an image, which can only be read.
    ///
    /// # Errors
    ///
    /// As [`open_read_only`](Self::open_read_only).
    pub fn open_snapshot<N>(&self, name: N, snapshot: &SnapshotName) -> Result<Image>
    where
        N: TryInto<ImageName>,
        Error: From<N::Error>,
    {
        self.open_image(Key::Name(name.try_into()?), Some(snapshot), true)
    }

    /// Opens an image by its id to read: the way to one that was renamed, is in the trash, or has a name that is no
    /// UTF-8.
    ///
    /// # Errors
    ///
    /// As [`open_read_only`](Self::open_read_only).
    #[doc(alias = "rbd_open_by_id_read_only")]
    pub fn open_read_only_by_id(&self, id: &ImageId) -> Result<Image> {
        self.open_image(Key::Id(id.clone()), None, true)
    }

    /// Opens an image by its id to read and write.
    ///
    /// # Errors
    ///
    /// As [`open_read_only`](Self::open_read_only).
    #[doc(alias = "rbd_open_by_id")]
    pub fn open_by_id(&self, id: &ImageId) -> Result<Image> {
        self.open_image(Key::Id(id.clone()), None, false)
    }

    /// Opens a snapshot of an image by the image's id.
    ///
    /// # Errors
    ///
    /// As [`open_read_only`](Self::open_read_only).
    pub fn open_snapshot_by_id(&self, id: &ImageId, snapshot: &SnapshotName) -> Result<Image> {
        self.open_image(Key::Id(id.clone()), Some(snapshot), true)
    }

    fn open_image(&self, key: Key, snapshot: Option<&SnapshotName>, read_only: bool) -> Result<Image> {
        let at = snapshot.map(|snapshot| format!("@{snapshot}")).unwrap_or_default();
        let label: Arc<str> = format!("{self}/{key}{at}").into();
        let (io, snapshot_name) = (Arc::clone(&self.io), snapshot.cloned());
        let open = move || {
            let find = match &key {
                Key::Name(name) => Find::Name(name.as_str()),
                Key::Id(id) => Find::Id(id.as_str()),
            };
            let snapshot = snapshot_name.as_ref().map(SnapshotName::as_str);
            let image = ImageHandle::open(&io, find, snapshot, read_only)?;
            let write_untold = !read_only && has_osd_timeout(io.cluster()) && has_cache(&image)?;
            Ok((image, write_untold))
        };
        let (handle, write_untold) = self.call("open image", &label, open)?;
        Ok(Image {
            pool: self.clone(),
            handle: Arc::new(handle),
            label,
            snapshot: snapshot.cloned(),
            read_only,
            deadline: self.deadline,
            write_untold,
            write_lost: Arc::default(),
        })
    }
}

/// Whether librbd's cache is on for an image: it has options of its own, and so has its pool.
fn has_cache(image: &ImageHandle) -> Result<bool, Errno> {
    Ok(image.config()?.iter().any(|(option, value)| option == "rbd_cache" && value == "true"))
}

/// By what an image is opened.
enum Key {
    Name(ImageName),
    Id(ImageId),
}

impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Id(id) => write!(f, "(id {id})"),
        }
    }
}

impl Cluster {
    /// Opens what a spec names, to read: an image, or a snapshot of it.
    ///
    /// # Errors
    ///
    /// As [`Cluster::pool`] and [`Pool::open_read_only`].
    pub fn open_read_only(&self, spec: &ImageSpec) -> Result<Image> {
        self.open_of(spec, true)
    }

    /// Opens the image that a spec names, to read and write; a snapshot can only be read.
    ///
    /// # Errors
    ///
    /// As [`Cluster::pool`] and [`Pool::open_read_only`].
    pub fn open(&self, spec: &ImageSpec) -> Result<Image> {
        self.open_of(spec, spec.snapshot().is_some())
    }

    /// Pool and image by one deadline.
    fn open_of(&self, spec: &ImageSpec, read_only: bool) -> Result<Image> {
        let deadline = Deadline::after(self.deadline);
        let pool = self.pool_of(spec)?;
        let image = pool.until(deadline).open_image(Key::Name(spec.image().clone()), spec.snapshot(), read_only)?;
        Ok(Image { deadline: self.deadline, pool, ..image })
    }
}

impl Image {
    /// The pool and namespace of the image.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The snapshot that is open, if it is one.
    pub fn snapshot(&self) -> Option<&SnapshotName> {
        self.snapshot.as_ref()
    }

    /// The same open image with another deadline for each call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self.clone() }
    }

    /// The same open image, with calls that may wait for ever.
    #[must_use]
    pub fn without_deadline(&self) -> Self {
        Self { deadline: None, ..self.clone() }
    }

    /// Closes the image and says how that went. Dropping closes too, and says nothing.
    ///
    /// # Errors
    ///
    /// `Busy` while clones of this handle live, or a call that passed its deadline is still under way: the last of them
    /// will close it. `Busy` inside a callback too, such as [`rebuild_object_map`](Self::rebuild_object_map)'s: it is
    /// closed on another thread then, and how that goes is not told. Whatever librbd meets while it writes back what it
    /// holds; `TimedOut` where an earlier write on this image was given up (see
    /// [`ClusterBuilder::osd_timeout`](crate::rados::ClusterBuilder::osd_timeout)): the data of that write is lost. The
    /// image is closed then all the same.
    #[doc(alias = "rbd_close")]
    pub fn close(self) -> Result<()> {
        const CLOSE: &str = "close image";
        let Self { pool, handle, label, deadline, write_lost, .. } = self;
        let handle = Arc::into_inner(handle).ok_or_else(|| {
            Error::new(ErrorKind::Busy, CLOSE).with_object(&label).with_hint("other handles of this image are in use")
        })?;
        pool.connection.call(CLOSE, &label, deadline, move || handle.close())?;
        super::io::refuse_after_lost_write(&write_lost, CLOSE, &label)
    }

    pub(super) fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&ImageHandle) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T> {
        let handle = Arc::clone(&self.handle);
        let called = self.pool.connection.call(operation, &self.label, self.deadline, move || work(&handle));
        called.map_err(|error| self.blame_handle(error))
    }

    pub(super) fn call_and_parse<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&ImageHandle) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        let handle = Arc::clone(&self.handle);
        self.pool.connection.call_and_parse(operation, &self.label, self.deadline, move || work(&handle))
    }

    /// Of the causes of EROFS one is known here.
    pub(super) fn blame_handle(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::ReadOnly if self.read_only => error.with_hint("this handle is open read-only"),
            _ => error,
        }
    }

    pub(super) fn error(&self, kind: ErrorKind, operation: &'static str) -> Error {
        Error::new(kind, operation).with_object(&self.label)
    }
}

/// `POOL/[NAMESPACE/]IMAGE[@SNAPSHOT]` by the names that it was opened by, also after the image or its pool was
/// renamed, or with the id in brackets where it was opened by that. Errors name it in the same way.
impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}
