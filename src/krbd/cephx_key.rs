//! A cephx key, decoded: what the kernel's keyring takes.

use std::fmt;

use zeroize::Zeroizing;

use super::failure::Stage;
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secret;

/// The encoded key that the base64 of a keyring stands for: a type, a time, a length and the secret itself.
///
/// It is wiped when it goes, and `Debug` shows its type and nothing else.
pub(super) struct CephxKey(Zeroizing<Vec<u8>>);

/// The cipher that a key is for: the first field of an encoded key (Ceph's `CryptoKey`, the kernel's
/// `net/ceph/crypto.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum KeyType {
    /// No cipher: a cluster without authentication.
    None,
    /// AES-128, which every kernel takes.
    Aes,
    /// AES-256 with Kerberos 5 derivation, the default of clusters made with Ceph 20.2.4 or later. Kernels take it from
    /// 7.0; older ones refuse it with errno 524 or EINVAL.
    Aes256k,
    /// Any other number.
    Other(u16),
}

impl CephxKey {
    /// Decodes the text of a keyring. That text then has nothing in it but base64.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: it is not base64, or not of a key. The text is in no part of the error.
    pub(super) fn decode(secret: &Secret) -> Result<Self> {
        let text = secret.expose().as_bytes();
        if text.is_empty() {
            return Err(malformed("it is empty"));
        }
        if !text.len().is_multiple_of(4) {
            return Err(malformed("it is not base64"));
        }
        let digits = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
        // Of the full length from the start: a vector that grows leaves copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() * 6 / 8));
        for chunk in digits.chunks(4) {
            let mut group = 0;
            for digit in chunk {
                let value = ALPHABET.iter().position(|letter| letter == digit);
                group = group << 6 | value.ok_or_else(|| malformed("it is not base64"))? as u32;
            }
            let group = (group << (6 * (4 - chunk.len()))).to_be_bytes();
            bytes.extend_from_slice(&group[1..chunk.len()]);
        }
        Self::from_encoded(bytes)
    }

    fn from_encoded(bytes: Zeroizing<Vec<u8>>) -> Result<Self> {
        match *bytes.as_slice() {
            // le16 type, le32 seconds, le32 nanoseconds, le16 length, the secret
            [_, _, _, _, _, _, _, _, _, _, low, high, ref key @ ..]
                if key.len() == usize::from(u16::from_le_bytes([low, high])) =>
            {
                Ok(Self(bytes))
            }
            _ => Err(malformed("it does not hold a key of the length that it states")),
        }
    }

    /// An AES key of zeros.
    pub(super) fn of_zeros() -> Self {
        let mut bytes = vec![0; 28];
        (bytes[0], bytes[10]) = (1, 16);
        Self(Zeroizing::new(bytes))
    }

    pub(super) fn key_type(&self) -> KeyType {
        match u16::from_le_bytes([self.0[0], self.0[1]]) {
            0 => KeyType::None,
            1 => KeyType::Aes,
            2 => KeyType::Aes256k,
            other => KeyType::Other(other),
        }
    }

    /// What the kernel's key type `ceph` takes as a payload.
    pub(super) fn as_encoded(&self) -> &[u8] {
        &self.0
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn malformed(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidInput, "read cephx key").with_hint(why).at(Stage::Preflight)
}

impl fmt::Debug for CephxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CephxKey").field(&self.key_type()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(key_type: u16, key: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut bytes = key_type.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[7; 8]);
        bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.into()
    }

    #[test]
    fn a_key_of_a_keyring_is_decoded() {
        let key = CephxKey::decode(&Secret::new("AQBRHFNlAAAAABAAAAECAwQFBgcICQoLDA0ODw==")).unwrap();
        assert_eq!(key.key_type(), KeyType::Aes);
        assert_eq!(key.as_encoded()[12..], (0..16).collect::<Vec<u8>>());
        assert_eq!(format!("{key:?}"), "CephxKey(Aes)");
    }

    #[test]
    fn an_aes256k_key_is_told_from_the_others() {
        let key_type = |bytes| CephxKey::from_encoded(bytes).unwrap().key_type();
        assert_eq!(key_type(encoded(2, &[1; 32])), KeyType::Aes256k);
        assert_eq!(key_type(encoded(0, b"")), KeyType::None);
        assert_eq!(key_type(encoded(9, b"")), KeyType::Other(9));
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_repeated() {
        for text in ["", "A", "AQB*", "hello=world", "AQBRHFNlAAAAABAAo9K/oNuuDNdSqbRnkTIW", "====", "AAAA", "a,ro"] {
            let error = CephxKey::decode(&Secret::new(text)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
            assert_eq!(error.hint() == Some("it is empty"), text.is_empty());
            assert!(text.len() < 4 || !format!("{error:#} {error:?}").contains(text), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_decoder_panic(text: String) {
            let _ = CephxKey::decode(&Secret::new(text));
        }
    }
}
