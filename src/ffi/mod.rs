//! The C libraries behind safe handles: all that is unsafe about librados and librbd is in this module.
//!
//! A function here makes one C call (or one and its clean-up), knows nothing of deadlines, and answers with the bare
//! [`Errno`]; what it was done to and for is known to the callers in `rados` and `image`.
#![allow(unsafe_code)]

pub(crate) mod callback;
pub(crate) mod cluster;
pub(crate) mod fork;
pub(crate) mod image;
pub(crate) mod image_info;
pub(crate) mod io;
pub(crate) mod lock;
pub(crate) mod migration;
pub(crate) mod notify;
pub(crate) mod operation;
#[cfg(feature = "list-watchers")]
pub(crate) mod watchers;

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;

/// A (positive) errno as a C library gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const NOT_FOUND: Self = Self(libc::ENOENT);
    pub(crate) const INVALID: Self = Self(libc::EINVAL);
    /// librados.h: `EBLOCKLISTED`.
    pub(crate) const BLOCKLISTED: Self = Self(libc::ESHUTDOWN);
    pub(crate) const TIMED_OUT: Self = Self(libc::ETIMEDOUT);
    /// Of an operation that was withdrawn.
    pub(crate) const CANCELED: Self = Self(libc::ECANCELED);
    const RANGE: Self = Self(libc::ERANGE);
}

/// The one place where what a C function returned becomes a `Result`: negative is an errno, the rest a value.
fn check<T: TryInto<i64> + Copy>(returned: T) -> Result<T, Errno> {
    match returned.try_into() {
        Ok(code) if code < 0 => Err(Errno(i32::try_from(-code).unwrap_or(i32::MAX))),
        _ => Ok(returned),
    }
}

/// Text for C. A NUL inside is refused: C would see the text cut off.
fn c_string(text: impl Into<Vec<u8>>) -> Result<CString, Errno> {
    CString::new(text).map_err(|_| Errno::INVALID)
}

/// Room for `length` bytes, if there is memory for them: the length is the caller's choice.
fn buffer(length: usize) -> Result<Vec<u8>, Errno> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(length).map_err(|_| Errno(libc::ENOMEM))?;
    Ok(buffer)
}

/// The largest buffer, in items, that an answer is given before it is called nonsense.
const LARGEST: usize = 1 << 28;

/// Calls `fill` with a buffer of `first` items, and with a larger one as long as it says that the buffer is too small
/// (`-ERANGE`, of `rados_conf_get` `-ENAMETOOLONG`), since what is listed can grow between two calls.
///
/// `fill` gets the buffer and its size in items; it returns what the C function returned and leaves in the size the
/// number of items that it wrote, or that it needs.
fn grow<T, R: TryInto<i64> + Copy>(
    first: usize,
    mut fill: impl FnMut(&mut [MaybeUninit<T>], &mut usize) -> R,
) -> Result<Vec<T>, Errno> {
    let mut capacity = first.max(1);
    loop {
        let mut buffer = Vec::<T>::with_capacity(capacity);
        let mut size = capacity;
        match check(fill(&mut buffer.spare_capacity_mut()[..capacity], &mut size)) {
            Ok(_) if size <= capacity => {
                // SAFETY: `fill` has written the first `size` items, which the capacity holds.
                unsafe { buffer.set_len(size) };
                return Ok(buffer);
            }
            // A size beyond the buffer with success is "too small" as well.
            Ok(_) | Err(Errno(libc::ERANGE | libc::ENAMETOOLONG)) if capacity < LARGEST => {
                capacity = size.max(capacity * 2).min(LARGEST);
            }
            Ok(_) => return Err(Errno::RANGE),
            Err(errno) => return Err(errno),
        }
    }
}

/// [`grow`] for a function that writes a C string and says nothing about its length.
fn grow_text<R: TryInto<i64> + Copy>(
    first: usize,
    mut fill: impl FnMut(*mut c_char, usize) -> R,
) -> Result<String, Errno> {
    let mut bytes = grow::<u8, R>(first, |buffer, size| {
        // The C functions end the text with a NUL; a zeroed buffer has one in any case.
        buffer.fill(MaybeUninit::new(0));
        let returned = fill(buffer.as_mut_ptr().cast(), buffer.len());
        *size = buffer.len();
        returned
    })?;
    // One of these texts is a key, so that no copy of it is left behind.
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Copies a C string; null is empty. Bytes that are no UTF-8 are replaced.
///
/// # Safety
///
/// `text` is null or points at a NUL-terminated string.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and NUL-terminated by the caller's word.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The versions of the installed libraries: librados' (3.0.0 from Ceph 16 to 20) and librbd's, which tells releases
/// apart.
pub(crate) fn library_versions() -> ([i32; 3], [i32; 3]) {
    let (mut rados, mut rbd) = ([0 as c_int; 3], [0 as c_int; 3]);
    let [a, b, c] = &mut rados;
    // SAFETY: `rados_version` writes three ints.
    unsafe { ceph_sys::rados_version(a, b, c) };
    let [a, b, c] = &mut rbd;
    // SAFETY: `rbd_version` writes three ints.
    unsafe { ceph_sys::rbd_version(a, b, c) };
    (rados, rbd)
}

/// A time as `ctime` prints it, in the local time zone and without its line break: `Thu Jan  1 00:00:00 1970`.
pub(crate) fn local_time(seconds: i64) -> String {
    // ctime(3): at least 26 bytes.
    let mut buffer = [0 as c_char; 64];
    // SAFETY: a time and a buffer that is large enough.
    let written = unsafe { libc::ctime_r(&seconds, buffer.as_mut_ptr()) };
    // SAFETY: null for a year that does not fit, else the buffer, NUL-terminated.
    unsafe { text(written) }.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_return_is_an_errno_and_the_rest_a_value() {
        assert_eq!(check(-2), Err(Errno(2)));
        assert_eq!(check(36), Ok(36));
        assert_eq!(check(-110_i64), Err(Errno(110)));
    }

    /// A list that gains items between the calls, as a listing under change does.
    #[test]
    fn a_buffer_grows_until_a_list_that_changes_fits() {
        let mut needed = 3;
        let mut calls = 0;
        let items = grow::<u32, i32>(1, |buffer, size| {
            calls += 1;
            if buffer.len() < needed {
                *size = needed;
                needed += 2;
                return -libc::ERANGE;
            }
            for (n, item) in buffer[..needed].iter_mut().enumerate() {
                item.write(n as u32);
            }
            *size = needed;
            0
        })
        .unwrap();
        assert_eq!(items.len(), needed);
        assert_eq!(items.last(), Some(&(needed as u32 - 1)));
        assert!(calls > 1);
    }

    #[test]
    fn a_function_that_is_never_content_ends_in_an_error() {
        let mut calls = 0;
        let result = grow::<u8, i32>(LARGEST / 2, |_, _| {
            calls += 1;
            -libc::ERANGE
        });
        assert_eq!(result, Err(Errno::RANGE));
        assert_eq!(calls, 2);
    }

    #[test]
    fn text_grows_on_either_of_the_two_codes_for_too_small() {
        for code in [libc::ERANGE, libc::ENAMETOOLONG] {
            let text = grow_text(2, |buffer, size| {
                if size < 6 {
                    return -code;
                }
                // SAFETY: the buffer has room for six bytes.
                unsafe { std::ptr::copy_nonoverlapping(c"admin".as_ptr(), buffer, 6) };
                0
            });
            assert_eq!(text.as_deref(), Ok("admin"));
        }
    }

    #[test]
    fn a_nul_in_text_for_c_is_refused() {
        assert_eq!(c_string("a\0b"), Err(Errno::INVALID));
    }
}
