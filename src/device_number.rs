//! The number by which the kernel knows a device.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};
use crate::text::{decimal, quoted};

/// A block device's major and minor number.
///
/// Two names can mean one device and one name can mean different devices in different mount namespaces; the number is
/// the same everywhere on a host (`stat(2)`, `st_rdev`; the third field of `/proc/PID/mountinfo`).
///
/// ```
/// # fn main() -> rbd::Result<()> {
/// let number: rbd::DeviceNumber = "252:16".parse()?;
/// assert_eq!((number.major(), number.minor()), (252, 16));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    major: u32,
    minor: u32,
}

impl DeviceNumber {
    /// The device `major`:`minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// From `st_dev` or `st_rdev` as `stat(2)` gives them.
    #[doc(alias = "makedev")]
    pub fn from_dev(dev: u64) -> Self {
        Self::new(libc::major(dev), libc::minor(dev))
    }

    /// The major number: the driver.
    pub const fn major(self) -> u32 {
        self.major
    }

    /// The minor number: which of the driver's devices, partitions counted.
    pub const fn minor(self) -> u32 {
        self.minor
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DeviceNumber {
    type Err = Error;

    /// Reads `MAJOR:MINOR`, as in sysfs's `dev` files. [`ErrorKind::InvalidInput`] for anything else.
    fn from_str(text: &str) -> Result<Self, Error> {
        text.trim_end()
            .split_once(':')
            .and_then(|(major, minor)| Some(Self::new(decimal(major)?, decimal(minor)?)))
            .ok_or_else(|| {
                Error::new(ErrorKind::InvalidInput, "parse device number")
                    .with_object(quoted(text))
                    .with_hint("it is MAJOR:MINOR, such as 252:16")
            })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for DeviceNumber {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_are_the_same_both_ways() {
        for text in ["0:0", "252:16", "4095:1048575"] {
            assert_eq!(text.parse::<DeviceNumber>().unwrap().to_string(), text);
        }
        assert_eq!("7:0\n".parse::<DeviceNumber>().unwrap(), DeviceNumber::new(7, 0));
    }

    #[test]
    fn what_is_no_device_number_is_refused() {
        for text in ["", ":", "7", "7:", ":0", "+7:0", "7:-1", "7:0:0", "4294967296:0", "a:b"] {
            let error = text.parse::<DeviceNumber>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        }
    }

    #[test]
    fn a_dev_t_with_a_large_minor_is_taken_apart() {
        assert_eq!(DeviceNumber::from_dev(libc::makedev(254, 0x12345)), DeviceNumber::new(254, 0x12345));
    }
}
