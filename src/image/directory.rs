//! The images of a pool: `rbd_directory`, which librbd keeps for `rbd ls`, read in pages.

use std::collections::VecDeque;

use crate::encoding::{take_count, take_string};
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::Errno;
use crate::name::{HeaderObject, ImageId, ImageName, RawName};
use crate::rados::Pool;
use crate::rados::connection::Failure;

/// Where librbd lists images: those of format 2 in the omap, as `name_NAME` with the id, those of format 1 in the data.
const DIRECTORY: &str = "rbd_directory";
const NAME_PREFIX: &str = "name_";

/// Names in one answer of the OSD, whose own limit is `osd_max_omap_entries_per_request` (1024). librados needs several
/// hundred bytes for each while it decodes them; with more at a time a listing is no faster.
const PAGE: u64 = 256;

/// An image in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ImageEntry {
    /// The name as it is: perhaps no UTF-8.
    pub name: RawName,
    /// The id; format 1 has none.
    pub id: Option<ImageId>,
}

impl ImageEntry {
    /// The image's header object.
    ///
    /// # Errors
    ///
    /// `InvalidName` for an image of format 1 whose name is no valid one.
    pub fn header_object(&self) -> Result<HeaderObject> {
        match &self.id {
            Some(id) => Ok(HeaderObject::of_id(id)),
            None => ImageName::try_from(&self.name).map(|name| HeaderObject::of_format_1(&name)),
        }
    }
}

/// The images of a pool, of format 2 first, each kind in the order of the names' bytes. Names are read as the listing
/// goes on, a few hundred at a time.
#[derive(Debug)]
pub struct Images {
    pool: Pool,
    page: VecDeque<ImageEntry>,
    next: Next,
}

#[derive(Debug)]
enum Next {
    /// The keys of the omap after this one.
    Omap(Vec<u8>),
    Format1,
    Nothing,
}

impl Pool {
    /// Lists the images of this pool and namespace. Images in the trash are not among them.
    ///
    /// # Errors
    ///
    /// Of the iterator's items: `TimedOut` and its like; the deadline holds for each page of names. After an
    /// error it ends.
    #[doc(alias = "rbd_list2")]
    pub fn images(&self) -> Images {
        Images { pool: self.clone(), page: VecDeque::new(), next: Next::Omap(Vec::new()) }
    }
}

impl Iterator for Images {
    type Item = Result<ImageEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.page.pop_front() {
                return Some(Ok(entry));
            }
            let page = match std::mem::replace(&mut self.next, Next::Nothing) {
                Next::Nothing => return None,
                Next::Omap(after) => self.omap_page(after),
                Next::Format1 => self.format_1_page(),
            };
            match page {
                Ok(page) => self.page = page,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Images {
    fn omap_page(&mut self, after: Vec<u8>) -> Result<VecDeque<ImageEntry>> {
        let (page, next) = self.pool.object("list images of", DIRECTORY, move |io, directory| {
            let (pairs, more) = match io.omap(directory, &after, NAME_PREFIX, PAGE) {
                // A pool that never had an image has no directory.
                Err(Errno::NOT_FOUND) => return Ok((VecDeque::new(), Next::Nothing)),
                page => page?,
            };
            let next = match pairs.last() {
                Some((last, _)) if more => Next::Omap(last.clone()),
                _ => Next::Format1,
            };
            let entries: Result<_, Failure> = pairs.iter().map(|(key, value)| Ok(entry(key, value)?)).collect();
            Ok::<_, Failure>((entries?, next))
        })?;
        self.next = next;
        Ok(page)
    }

    fn format_1_page(&self) -> Result<VecDeque<ImageEntry>> {
        self.pool.ask("list images of", DIRECTORY, |io, directory, limit| {
            let size = match io.stat(directory, |operation| limit.bind(operation)) {
                Err(Errno::NOT_FOUND) => 0,
                stat => stat?.size,
            };
            if size == 0 {
                return Ok(VecDeque::new());
            }
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            let data = io.read(directory, 0, size, |operation| limit.bind(operation))?;
            let names = format_1_names(&data).ok_or_else(|| malformed("data"))?;
            Ok(names.into_iter().map(|name| ImageEntry { name: name.into(), id: None }).collect())
        })
    }
}

fn entry(key: &[u8], value: &[u8]) -> Result<ImageEntry> {
    let name = key.strip_prefix(NAME_PREFIX.as_bytes()).unwrap_or(key);
    let mut value = value;
    let id = take_string(&mut value).and_then(|id| str::from_utf8(id).ok()).ok_or_else(|| malformed("id"))?;
    Ok(ImageEntry { name: name.into(), id: Some(ImageId::new(id)?) })
}

fn malformed(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, "decode").with_object(what)
}

/// The names in the directory of format 1: an encoded header, then a map of names to nothing (`tmap`).
fn format_1_names(mut data: &[u8]) -> Option<Vec<&[u8]>> {
    take_string(&mut data)?;
    let count = take_count(&mut data, 8)?;
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        names.push(take_string(&mut data)?);
        take_string(&mut data)?;
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn string(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
    }

    #[test]
    fn an_entry_of_format_2_has_name_and_id() {
        let entry = entry(b"name_pvc\xff1", &string(b"fa7b2ae8944a")).unwrap();
        assert_eq!(entry.name.as_bytes(), b"pvc\xff1");
        assert_eq!(entry.header_object().unwrap().as_str(), "rbd_header.fa7b2ae8944a");
    }

    #[test]
    fn an_id_that_is_cut_off_is_an_error() {
        assert_eq!(entry(b"name_a", b"\x05\0\0\0abc").unwrap_err().kind(), ErrorKind::InvalidData);
    }

    proptest! {
        #[test]
        fn the_directory_of_format_1_is_read_back(names in prop::collection::vec("[a-z]{1,8}", 0..8)) {
            let mut data = [string(b""), (names.len() as u32).to_le_bytes().to_vec()].concat();
            for name in &names {
                data.extend([string(name.as_bytes()), string(b"")].concat());
            }
            let read: Vec<_> = format_1_names(&data).unwrap().into_iter().map(|n| str::from_utf8(n).unwrap()).collect();
            prop_assert_eq!(read, names);
        }

        #[test]
        fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = format_1_names(&data);
            let _ = entry(&data, &data);
        }
    }
}
