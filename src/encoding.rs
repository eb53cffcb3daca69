//! What is read of Ceph's own encoding: numbers little-endian, strings and lists with their length before them. Each
//! function takes a value from the front of the data; `None` where it ends too early.

pub(crate) fn take_u32(data: &mut &[u8]) -> Option<u32> {
    let (number, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(u32::from_le_bytes(*number))
}

pub(crate) fn take_u64(data: &mut &[u8]) -> Option<u64> {
    let (number, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(u64::from_le_bytes(*number))
}

/// A string or buffer: its length in 32 bits, and its bytes.
pub(crate) fn take_string<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_u32(data)? as usize;
    let (string, rest) = data.split_at_checked(length)?;
    *data = rest;
    Some(string)
}

/// The number of items that follow, each of which has `least` bytes at least: never more than the data can hold.
pub(crate) fn take_count(data: &mut &[u8], least: usize) -> Option<usize> {
    let count = take_u32(data)? as usize;
    (count <= data.len() / least).then_some(count)
}
