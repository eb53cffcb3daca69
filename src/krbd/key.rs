//! The key's way into the kernel.

use std::io;

use super::add_string::{KeyWord, key_name};
use super::cephx_key::{CephxKey, KeyType};
use super::failure::Stage;
use super::helper::NamedKey;
use super::request::{Key, MapRequest};
use super::sys;
use crate::error::{Error, ErrorKind, Result};

/// The kernel's errno for a key of a type that it cannot use; it has no name in C.
const ENOTSUPP: i32 = 524;

/// Hands the request's key to the kernel's keyring of the **calling thread**, which must be the one that writes the
/// request: nobody else finds the key there, and it goes with the thread. The kernel copies it while it maps.
pub(super) fn hand_over(request: &MapRequest) -> Result<KeyWord<'_>> {
    let secret = match &request.credentials.key {
        Key::Absent => return Ok(KeyWord::None),
        Key::Preloaded => return Ok(KeyWord::Keyring),
        Key::Secret(secret) => secret,
    };
    let key = CephxKey::decode(secret)?;
    let name = key_name(&request.credentials.user);
    match sys::add_ceph_key(&name, &key) {
        Ok(()) => Ok(KeyWord::Keyring),
        Err(error) if request.secret_in_options && is_unavailable(&error) => Ok(KeyWord::Secret(secret)),
        Err(error) => Err(refused(&error, &name, key.key_type())),
    }
}

/// The key for a helper process, whose thread's keyring it must be in.
pub(super) fn for_helper<'a>(request: &'a MapRequest, word: &KeyWord<'_>) -> Option<NamedKey<'a>> {
    match (word, &request.credentials.key) {
        (KeyWord::Keyring, Key::Secret(secret)) => Some((key_name(&request.credentials.user), secret)),
        _ => None,
    }
}

/// What the keyring of a helper's thread says, where that of this process took the key.
pub(super) fn refused_in_helper(request: &MapRequest, error: &io::Error) -> Error {
    let key_type = request.credentials.key_type().ok().flatten().unwrap_or(KeyType::Aes);
    refused(error, &key_name(&request.credentials.user), key_type)
}

/// No keyrings, no key type `ceph` in them, or a filter in the way of the call.
fn is_unavailable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::ENODEV | libc::EPERM | libc::EACCES))
}

fn refused(error: &io::Error, name: &str, key_type: KeyType) -> Error {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let failed = Error::from_errno("hand the key to the kernel's keyring", errno).with_object(name).at(Stage::AddKey);
    match errno {
        // Kernels that check the length first say EINVAL.
        ENOTSUPP | libc::EINVAL if key_type == KeyType::Aes256k => failed.with_kind(ErrorKind::Unsupported).with_hint(
            "the key is of the type aes256k, which kernels take from 7.0: this user needs a key of type aes",
        ),
        ENOTSUPP => failed.with_kind(ErrorKind::Unsupported).with_hint("this kernel cannot use keys of this type"),
        libc::ENODEV => {
            failed.with_kind(ErrorKind::ModuleNotLoaded).with_hint("libceph, which brings the key type, is not loaded")
        }
        libc::EDQUOT => failed.with_hint(
            "the quota of keys is used up, which /proc/key-users shows; sysctl kernel.keys.maxkeys or maxbytes raises it, for root root_maxkeys or root_maxbytes",
        ),
        libc::EPERM | libc::EACCES | libc::ENOSYS => failed
            .with_hint("add_key(2) is not allowed here; the key can go among the options if the request allows it"),
        _ => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_keyring_says_is_told_apart() {
        let refused = |errno| {
            let error = refused(&io::Error::from_raw_os_error(errno), "client.kube", KeyType::Aes);
            assert_eq!((error.stage(), error.errno()), (Some(Stage::AddKey), Some(errno)));
            (error.kind(), error.hint().unwrap_or_default().to_owned())
        };
        assert!(refused(libc::EDQUOT).1.contains("quota of keys is used up"));
        assert_eq!(refused(libc::ENODEV).0, ErrorKind::ModuleNotLoaded);
        assert!(refused(libc::ENOSYS).1.contains("if the request allows it"));
        assert_eq!(refused(ENOTSUPP).0, ErrorKind::Unsupported);
        assert_eq!(refused(libc::ENOMEM), (ErrorKind::Other, String::new()));
    }
}
