//! Which image: by options, by a spec, or by both.

use std::fmt;

use rbd::{Cluster, ImageId, ImageName, ImageSpec, NamespaceName, Pool, PoolName, SnapshotName};

use crate::arguments::Arguments;
use crate::ceph_arguments::{Stop, errno, strerror};

/// The names that were given; empty where none was.
#[derive(Default)]
pub struct Names {
    pub pool: String,
    pub namespace: String,
    pub image: String,
    pub snapshot: String,
}

/// EINVAL
pub fn invalid(message: impl AsRef<str>) -> Stop {
    Stop::Exit(libc::EINVAL, format!("rbd: {}", message.as_ref()))
}

impl Names {
    /// Reads the options and, unless `--image` names the image, the first argument. An image must be named if it is
    /// `required`.
    pub fn of(arguments: &Arguments, required: bool) -> Result<Self, Stop> {
        let option = |name| arguments.get(name).unwrap_or_default().to_owned();
        let mut names = Self {
            pool: option("pool"),
            namespace: option("namespace"),
            image: String::new(),
            snapshot: option("snap"),
        };
        for spec in [arguments.get("image"), arguments.positional.first().map(String::as_str)].into_iter().flatten() {
            if names.image.is_empty() && !spec.is_empty() {
                names.read(spec)?;
            }
        }
        if required && names.image.is_empty() {
            return Err(invalid("image name was not specified"));
        }
        if names.namespace.contains(['@', '/']) {
            return Err(invalid(format!("invalid namespace name '{}'", names.namespace)));
        }
        Ok(names)
    }

    /// How many arguments [`of`](Self::of) used up.
    pub fn used(arguments: &Arguments) -> usize {
        usize::from(arguments.get("image").unwrap_or_default().is_empty()).min(arguments.positional.len())
    }

    /// For commands that work on images only.
    pub fn without_snapshot(self) -> Result<Self, Stop> {
        if self.snapshot.is_empty() {
            Ok(self)
        } else {
            Err(invalid("snapshot name specified for a command that doesn't use it"))
        }
    }

    /// `[POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]`, of which the original takes more than librbd does: an image's name may
    /// have slashes where it follows a namespace, or where no other reading fits.
    fn read(&mut self, spec: &str) -> Result<(), Stop> {
        fn before_slash(text: &str) -> Option<(&str, &str)> {
            text.split_once('/').filter(|(before, _)| !before.is_empty())
        }
        fn image_and_snapshot(text: &str) -> Option<(&str, Option<&str>)> {
            let (image, snapshot) = match text.split_once('@') {
                Some((image, snapshot)) => (image, Some(snapshot)),
                None => (text, None),
            };
            (!image.is_empty() && snapshot != Some("")).then_some((image, snapshot))
        }
        let in_pool = before_slash(spec);
        let in_namespace = in_pool.and_then(|(pool, rest)| {
            let (namespace, rest) = before_slash(rest).filter(|(namespace, _)| !namespace.contains('@'))?;
            Some((Some(pool), Some(namespace), rest))
        });
        let readings = [in_namespace, in_pool.map(|(pool, rest)| (Some(pool), None, rest)), Some((None, None, spec))];
        let found = readings.into_iter().flatten().find_map(|(pool, namespace, rest)| {
            let (image, snapshot) = image_and_snapshot(rest)?;
            Some([pool, namespace, Some(image), snapshot])
        });
        let found = found.ok_or_else(|| invalid(format!("invalid spec '{spec}'")))?;
        let places = [&mut self.pool, &mut self.namespace, &mut self.image, &mut self.snapshot];
        for (place, name) in places.into_iter().zip(found) {
            if let Some(name) = name {
                name.clone_into(place);
            }
        }
        Ok(())
    }

    /// As a spec, in the pool that is named.
    pub fn spec(&self) -> rbd::Result<ImageSpec> {
        let (pool, spec) = (PoolName::new(&*self.pool)?, ImageSpec::new(ImageName::new(&*self.image)?));
        let spec = match &*self.namespace {
            "" => spec.in_pool(pool),
            namespace => spec.in_namespace(pool, NamespaceName::new(namespace)?),
        };
        Ok(if self.snapshot.is_empty() { spec } else { spec.at_snapshot(SnapshotName::new(&*self.snapshot)?) })
    }

    /// Opens the pool, and makes sure of the namespace.
    pub fn open_pool(&self, cluster: &Cluster) -> Result<Pool, Stop> {
        let default = cluster.config("rbd_default_pool").unwrap_or_default();
        let name = if self.pool.is_empty() { &default } else { &self.pool };
        let pool = PoolName::new(&**name).and_then(|name| cluster.pool(name)).map_err(|error| match errno(&error) {
            libc::ENOENT if *name == default => Stop::Exit(
                libc::ENOENT,
                format!(
                    "rbd: error opening default pool '{name}'\n\
                     Ensure that the default pool has been created or specify an alternate pool name."
                ),
            ),
            errno => Stop::Exit(errno, format!("rbd: error opening pool '{name}': {}", strerror(errno))),
        })?;
        if self.namespace.is_empty() {
            return Ok(pool);
        }
        let absent = || Stop::Exit(libc::ENOENT, format!("rbd: namespace '{}' does not exist.", self.namespace));
        let namespace = NamespaceName::new(&*self.namespace).map_err(|error| match errno(&error) {
            libc::ENOENT => absent(),
            _ => asserting(&error),
        })?;
        match pool.namespace_exists(&namespace) {
            Ok(true) => pool.in_namespace(Some(&namespace)).map_err(|error| asserting(&error)),
            Ok(false) => Err(absent()),
            Err(error) => Err(asserting(&error)),
        }
    }

    /// Opens the image or its snapshot to read; by its id, where one is given.
    pub fn open_read_only(&self, pool: &Pool, id: Option<&str>) -> Result<rbd::Image, Stop> {
        let open = |snapshot: Option<&SnapshotName>| match (id, snapshot) {
            (None, None) => ImageName::new(&*self.image).and_then(|name| pool.open_read_only(name)),
            (None, Some(snapshot)) => ImageName::new(&*self.image).and_then(|name| pool.open_snapshot(name, snapshot)),
            (Some(id), None) => ImageId::new(id).and_then(|id| pool.open_read_only_by_id(&id)),
            (Some(id), Some(snapshot)) => ImageId::new(id).and_then(|id| pool.open_snapshot_by_id(&id, snapshot)),
        };
        let image = || open(None).map_err(|error| self.opening(id, &error));
        if self.snapshot.is_empty() {
            return image();
        }
        SnapshotName::new(&*self.snapshot).and_then(|snapshot| open(Some(&snapshot))).or_else(|error| {
            // The image or the snapshot: whichever is not there, C says the same.
            image()?;
            let errno = errno(&error);
            Err(Stop::Exit(errno, format!("error setting snapshot context: {}", strerror(errno))))
        })
    }

    /// Opens the image to change it.
    pub fn open(&self, pool: &Pool) -> Result<rbd::Image, Stop> {
        let image = ImageName::new(&*self.image).and_then(|name| pool.open(name));
        image.map_err(|error| self.opening(None, &error))
    }

    fn opening(&self, id: Option<&str>, error: &rbd::Error) -> Stop {
        let errno = errno(error);
        let image = id.map_or_else(|| self.image.clone(), |id| format!("with id {id}"));
        Stop::Exit(errno, format!("rbd: error opening image {image}: {}", strerror(errno)))
    }
}

/// `POOL/[NAMESPACE/]IMAGE[@SNAPSHOT]`
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, namespace, image, snapshot } = self;
        write!(f, "{pool}/{namespace}{}{image}", if namespace.is_empty() { "" } else { "/" })?;
        write!(f, "{}{snapshot}", if snapshot.is_empty() { "" } else { "@" })
    }
}

fn asserting(error: &rbd::Error) -> Stop {
    let errno = errno(error);
    Stop::Exit(errno, format!("rbd: error asserting namespace: {}", strerror(errno)))
}
