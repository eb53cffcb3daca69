//! Sets of features, by the bits and names of `rbd/features.h`.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::text::quoted;

bitflags::bitflags! {
    /// A set of image features; bits that this library does not know are kept.
    ///
    /// Its text is what `rbd info` prints: the names separated by `, `, with unknown bits as one hexadecimal number.
    /// Parsing takes names separated by commas, white space or both.
    ///
    /// ```
    /// use rbd::Features;
    ///
    /// let features: Features = "layering,exclusive-lock".parse()?;
    /// assert_eq!(features.bits(), 0x5);
    /// assert_eq!(features.to_string(), "layering, exclusive-lock");
    /// # Ok::<(), rbd::Error>(())
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Features: u64 {
        /// `layering`: clones.
        #[doc(alias = "RBD_FEATURE_LAYERING")]
        const LAYERING = 1 << 0;
        /// `striping`: stripes other than one object at a time.
        #[doc(alias = "RBD_FEATURE_STRIPINGV2")]
        const STRIPING = 1 << 1;
        /// `exclusive-lock`: one writer at a time.
        #[doc(alias = "RBD_FEATURE_EXCLUSIVE_LOCK")]
        const EXCLUSIVE_LOCK = 1 << 2;
        /// `object-map`: which objects exist; needs `exclusive-lock`.
        #[doc(alias = "RBD_FEATURE_OBJECT_MAP")]
        const OBJECT_MAP = 1 << 3;
        /// `fast-diff`: which objects changed since a snapshot; goes with `object-map`.
        #[doc(alias = "RBD_FEATURE_FAST_DIFF")]
        const FAST_DIFF = 1 << 4;
        /// `deep-flatten`: flattening of a clone's snapshots too; can be disabled, never enabled.
        #[doc(alias = "RBD_FEATURE_DEEP_FLATTEN")]
        const DEEP_FLATTEN = 1 << 5;
        /// `journaling`: a journal of all changes, for mirroring; needs `exclusive-lock`.
        #[doc(alias = "RBD_FEATURE_JOURNALING")]
        const JOURNALING = 1 << 6;
        /// `data-pool`: the data is in another pool.
        #[doc(alias = "RBD_FEATURE_DATA_POOL")]
        const DATA_POOL = 1 << 7;
        /// `operations`: set by librbd while an operation feature is in use, such as clones of version 2.
        #[doc(alias = "RBD_FEATURE_OPERATIONS")]
        const OPERATIONS = 1 << 8;
        /// `migrating`: set by librbd while the image is migrated.
        #[doc(alias = "RBD_FEATURE_MIGRATING")]
        const MIGRATING = 1 << 9;
        /// `non-primary`: set by librbd on the read-only side of snapshot-based mirroring.
        #[doc(alias = "RBD_FEATURE_NON_PRIMARY")]
        const NON_PRIMARY = 1 << 10;
        /// `dirty-cache`: set by librbd while a persistent cache holds writes.
        #[doc(alias = "RBD_FEATURE_DIRTY_CACHE")]
        const DIRTY_CACHE = 1 << 11;

        // Every bit may be set: newer releases have more features, and `!` must not lose them.
        const _ = !0;
    }
}

/// The names of `rbd/features.h`, by bit.
const NAMES: [(Features, &str); 12] = [
    (Features::LAYERING, "layering"),
    (Features::STRIPING, "striping"),
    (Features::EXCLUSIVE_LOCK, "exclusive-lock"),
    (Features::OBJECT_MAP, "object-map"),
    (Features::FAST_DIFF, "fast-diff"),
    (Features::DEEP_FLATTEN, "deep-flatten"),
    (Features::JOURNALING, "journaling"),
    (Features::DATA_POOL, "data-pool"),
    (Features::OPERATIONS, "operations"),
    (Features::MIGRATING, "migrating"),
    (Features::NON_PRIMARY, "non-primary"),
    (Features::DIRTY_CACHE, "dirty-cache"),
];

impl Features {
    /// Those that a user can enable and disable: `RBD_FEATURES_MUTABLE` without `RBD_FEATURES_MUTABLE_INTERNAL`, which
    /// librbd changes by itself.
    #[doc(alias = "RBD_FEATURES_MUTABLE")]
    pub const MUTABLE: Self =
        Self::EXCLUSIVE_LOCK.union(Self::OBJECT_MAP).union(Self::FAST_DIFF).union(Self::JOURNALING);

    /// Those that can be disabled and then never come back.
    #[doc(alias = "RBD_FEATURES_DISABLE_ONLY")]
    pub const DISABLE_ONLY: Self = Self::DEEP_FLATTEN;

    /// Those that a client must know even to read the image.
    #[doc(alias = "RBD_FEATURES_INCOMPATIBLE")]
    pub const INCOMPATIBLE: Self = Self::LAYERING.union(Self::STRIPING).union(Self::DATA_POOL).union(Self::DIRTY_CACHE);

    /// `object-map` and `fast-diff`, which librbd changes together since Ceph 10.2.
    pub(super) const MAPS: Self = Self::OBJECT_MAP.union(Self::FAST_DIFF);

    /// The set in the kernel's `/sys/bus/rbd/supported_features`, or in a device's `features`: `0x1bf` and a newline.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it is no hexadecimal number with `0x` before it.
    pub fn parse_kernel_mask(text: &str) -> Result<Self> {
        parse_hex(text.trim_end()).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "parse the kernel's features")
                .with_object(quoted(text))
                .with_hint("it is a hexadecimal number such as 0x1bf")
        })
    }

    /// What a client that supports only the features in `mask` lacks for this image.
    ///
    /// For a read-only map only [`INCOMPATIBLE`](Self::INCOMPATIBLE) features count: intersect with them first.
    pub fn unsupported_by(self, mask: Self) -> Unsupported {
        let unsupported = self.difference(mask);
        let disable = unsupported.intersection(Self::MUTABLE.union(Self::DISABLE_ONLY));
        Unsupported { disable, permanent: unsupported.difference(disable) }
    }

    /// The names, in the order of the bits; bits without a name are left out.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().filter(move |(feature, _)| self.contains(*feature)).map(|(_, name)| name)
    }

    /// The bits that have no name.
    fn unknown(self) -> Option<u64> {
        let unknown = self.difference(NAMES.iter().map(|(feature, _)| *feature).collect());
        (!unknown.is_empty()).then_some(unknown.bits())
    }
}

/// The features of an image that a client does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Unsupported {
    /// Those that can be disabled, so that the client can use the image.
    pub disable: Features,
    /// Those that stay: the client can never use this image.
    pub permanent: Features,
}

impl Unsupported {
    /// Whether the client supports all features of the image.
    pub fn is_empty(&self) -> bool {
        self.disable.is_empty() && self.permanent.is_empty()
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for name in self.names() {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        match self.unknown() {
            Some(bits) => write!(f, "{separator}{bits:#x}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Features {
    type Err = Error;

    /// An empty text is the empty set.
    fn from_str(text: &str) -> Result<Self> {
        let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        words.map(parse_word).collect()
    }
}

fn parse_word(word: &str) -> Result<Features> {
    let named = NAMES.iter().find(|(_, name)| *name == word).map(|(feature, _)| *feature);
    named.or_else(|| parse_hex(word)).ok_or_else(|| {
        let known: Vec<_> = NAMES.iter().map(|(_, name)| *name).collect();
        Error::new(ErrorKind::InvalidInput, "parse feature")
            .with_object(quoted(word))
            .with_hint(format!("features are {}", known.join(", ")))
    })
}

fn parse_hex(text: &str) -> Option<Features> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok().map(Features::from_bits_retain)
}

#[cfg(feature = "serde")]
impl serde::Serialize for Features {
    /// The names, as `rbd info --format json` has them, and unknown bits as one hexadecimal number.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unknown = self.unknown().map(|bits| format!("{bits:#x}"));
        serializer.collect_seq(self.names().map(str::to_owned).chain(unknown))
    }
}
