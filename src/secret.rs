//! A key that is wiped when it is dropped and never printed.

use std::fmt;

use zeroize::Zeroizing;

/// A secret text: the base64 of a cephx key, as it stands in a keyring.
///
/// `Debug` prints `Secret(..)`, there is no `Display` and no `Serialize`, and the buffer is wiped on drop. What the C
/// library and the kernel copy, they keep.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a key; surrounding white space, such as a key file's last newline, is removed.
    pub fn new(key: impl Into<String>) -> Self {
        let key = Zeroizing::new(key.into());
        Self(Zeroizing::new(key.trim().to_owned()))
    }

    /// Takes the value of an option, which may be a key, as it is.
    #[cfg(feature = "librados")]
    pub(crate) fn verbatim(value: &str) -> Self {
        Self(Zeroizing::new(value.to_owned()))
    }

    /// The key itself. The name says what the caller does.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_key_and_expose_gives_it_trimmed() {
        let secret = Secret::new(" AQBsecret==\n");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(secret.expose(), "AQBsecret==");
    }
}
