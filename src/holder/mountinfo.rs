//! The text of `/proc/PID/mountinfo` (`proc_pid_mountinfo(5)`; the kernel writes it in `fs/proc_namespace.c`).

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::DeviceNumber;

/// Where a mount's mounts and unmounts go to and come from (`mount_namespaces(7)`, "Shared subtrees").
///
/// It is what the mount itself is tagged with. Whether the unmounting of this mount reaches other namespaces is decided
/// by the tags of the mount that it sits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Propagation {
    /// `shared:N`: events go to, and come from, every mount in peer group N.
    pub shared: Option<u32>,
    /// `master:N`: events come from peer group N, and none go back.
    pub master: Option<u32>,
    /// `unbindable`: private, and cannot be bind-mounted.
    pub unbindable: bool,
}

impl Propagation {
    /// True when nothing that is unmounted elsewhere is unmounted here: the way by which a mount leaks.
    pub fn is_private(self) -> bool {
        self.shared.is_none() && self.master.is_none()
    }
}

impl fmt::Display for Propagation {
    /// `private`, `unbindable`, `shared:5`, `slave:5` or `slave:5 shared:6`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.master, self.shared) {
            (Some(master), Some(shared)) => write!(f, "slave:{master} shared:{shared}"),
            (Some(master), None) => write!(f, "slave:{master}"),
            (None, Some(shared)) => write!(f, "shared:{shared}"),
            (None, None) if self.unbindable => f.write_str("unbindable"),
            (None, None) => f.write_str("private"),
        }
    }
}

/// One line, its texts still escaped: most lines are looked at and thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MountLine<'a> {
    pub(super) id: u64,
    pub(super) parent: u64,
    pub(super) device: DeviceNumber,
    pub(super) root: Escaped<'a>,
    pub(super) mount_point: Escaped<'a>,
    pub(super) options: &'a [u8],
    pub(super) propagation: Propagation,
    pub(super) file_system: Escaped<'a>,
    pub(super) source: Escaped<'a>,
    pub(super) super_options: &'a [u8],
}

impl<'a> MountLine<'a> {
    /// `None` for what is no such line.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = number(fields.next()?)?;
        let parent = number(fields.next()?)?;
        let device = device_number(fields.next()?)?;
        let root = Escaped(fields.next()?);
        let mount_point = Escaped(fields.next()?);
        let options = fields.next()?;
        let mut propagation = Propagation::default();
        loop {
            match fields.next()? {
                b"-" => break,
                b"unbindable" => propagation.unbindable = true,
                tag => {
                    if let Some(group) = tag.strip_prefix(b"shared:") {
                        propagation.shared = Some(number(group)?);
                    } else if let Some(group) = tag.strip_prefix(b"master:") {
                        propagation.master = Some(number(group)?);
                    }
                    // Others (propagate_from, and what a newer kernel may add) are skipped, as the manual asks.
                }
            }
        }
        let file_system = Escaped(fields.next()?);
        let source = Escaped(fields.next()?);
        let super_options = fields.next()?;
        Some(Self { id, parent, device, root, mount_point, options, propagation, file_system, source, super_options })
    }

    /// Whether the mount or its whole file system is read-only.
    pub(super) fn is_read_only(&self) -> bool {
        has_option(self.options, b"ro") || has_option(self.super_options, b"ro")
    }
}

/// The lines of a text; `Err` holds one that is no mountinfo line.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = Result<MountLine<'_>, &[u8]>> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| MountLine::parse(line).ok_or(line))
}

/// Whether a comma-separated list has `option`, alone or as `option=`.
pub(super) fn has_option(options: &[u8], option: &[u8]) -> bool {
    option_value(options, option).is_some()
}

/// The value of `option` in a comma-separated list; empty where it stands alone.
pub(super) fn option_value<'a>(options: &'a [u8], option: &[u8]) -> Option<&'a [u8]> {
    options.split(|byte| *byte == b',').find_map(|entry| match entry.strip_prefix(option)? {
        [] => Some(&[][..]),
        [b'=', value @ ..] => Some(value),
        _ => None,
    })
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

fn device_number(text: &[u8]) -> Option<DeviceNumber> {
    let colon = text.iter().position(|byte| *byte == b':')?;
    Some(DeviceNumber::new(number(&text[..colon])?, number(&text[colon + 1..])?))
}

/// Text in which the kernel has put blanks, newlines, backslashes and the like as `\` and three octal digits
/// (`mangle_path` in `fs/seq_file.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Escaped<'a>(pub(super) &'a [u8]);

impl Escaped<'_> {
    /// The bytes meant. A backslash that no three octal digits follow stands for itself.
    pub(super) fn decode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len());
        let mut rest = self.0;
        while let Some((&first, after)) = rest.split_first() {
            match after {
                [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', left @ ..] if first == b'\\' => {
                    bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                    rest = left;
                }
                _ => {
                    bytes.push(first);
                    rest = after;
                }
            }
        }
        bytes
    }

    pub(super) fn path(self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.decode()))
    }

    pub(super) fn text(self) -> String {
        String::from_utf8_lossy(&self.decode()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn parse(line: &str) -> MountLine<'_> {
        MountLine::parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"))
    }

    #[test]
    fn every_field_of_a_leaked_mount_is_read() {
        let line = parse("1155 1088 252:16 /sub /rootfs/var/lib/a\\040b ro,relatime - ext4 /dev/rbd1 rw,stripe=16");
        assert_eq!((line.id, line.parent), (1155, 1088));
        assert_eq!(line.device, DeviceNumber::new(252, 16));
        assert_eq!(line.root.path(), Path::new("/sub"));
        assert_eq!(line.mount_point.path(), Path::new("/rootfs/var/lib/a b"));
        assert!(line.propagation.is_private());
        assert_eq!(line.file_system.text(), "ext4");
        assert_eq!(line.source.text(), "/dev/rbd1");
        assert!(line.is_read_only());
    }

    #[test]
    fn propagation_is_read_from_the_optional_fields() {
        for (fields, text) in [
            ("", "private"),
            ("shared:7 ", "shared:7"),
            ("master:3 ", "slave:3"),
            ("shared:4 master:3 ", "slave:3 shared:4"),
            ("master:3 propagate_from:2 ", "slave:3"),
            ("unbindable ", "unbindable"),
            ("newer:1 ", "private"),
        ] {
            let line = format!("1 2 8:0 / /m rw {fields}- xfs /dev/sda rw");
            assert_eq!(parse(&line).propagation.to_string(), text, "{line}");
        }
    }

    #[test]
    fn an_empty_source_is_no_missing_field() {
        assert_eq!(parse("1 2 0:40 / /m rw - tmpfs  rw,size=4k").source.text(), "");
    }

    #[test]
    fn a_line_that_is_cut_off_is_refused() {
        let whole = "36 35 98:0 /r /m rw shared:1 - ext3 /dev/root rw";
        for end in 0..whole.len() - " rw".len() {
            assert_eq!(MountLine::parse(&whole.as_bytes()[..end]), None, "{}", &whole[..end]);
        }
        assert_eq!(lines(b"1 2 8:0 / /m rw - a b c\nrubbish\n").filter(|line| line.is_err()).count(), 1);
    }

    #[test]
    fn options_are_found_whole_only() {
        assert_eq!(option_value(b"rw,hidepid=invisible", b"hidepid"), Some(&b"invisible"[..]));
        assert!(!has_option(b"rw,errors=remount-ro", b"ro") && !has_option(b"rw,robust", b"ro"));
    }

    #[test]
    fn a_backslash_before_no_octal_number_stands_for_itself() {
        assert_eq!(Escaped(br"a\9b\04\400\").decode(), br"a\9b\04\400\");
        assert_eq!(Escaped(br"\134040").decode(), br"\040");
    }

    /// As the kernel writes a path.
    fn escape(path: &[u8]) -> Vec<u8> {
        path.iter()
            .flat_map(|byte| match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => format!("\\{byte:03o}").into_bytes(),
                other => vec![*other],
            })
            .collect()
    }

    proptest! {
        #[test]
        fn any_path_survives_the_kernels_escapes(path in proptest::collection::vec(1_u8.., 0..64)) {
            prop_assert_eq!(Escaped(&escape(&path)).decode(), path);
        }

        #[test]
        fn any_path_is_one_field_of_a_line(path in proptest::collection::vec(1_u8.., 1..64)) {
            let mut line = b"1 2 8:1 / ".to_vec();
            line.extend(escape(&path));
            line.extend(b" rw - ext4 /dev/sda1 rw");
            let parsed = MountLine::parse(&line).unwrap();
            prop_assert_eq!(parsed.mount_point.decode(), path);
            prop_assert_eq!(lines(&line).count(), 1);
        }

        #[test]
        fn no_bytes_make_it_panic(text in proptest::collection::vec(any::<u8>(), 0..256)) {
            for line in lines(&text).flatten() {
                line.root.decode();
                line.mount_point.path();
            }
        }

        #[test]
        fn nothing_that_looks_like_a_line_makes_it_panic(text in "[0-9]{0,12} [0-9]{0,3} [0-9:]{0,12} [/a\\\\0-7]{0,9} /m rw [a-z:0-9 -]{0,20}") {
            for line in lines(text.as_bytes()).flatten() {
                line.mount_point.path();
            }
        }
    }
}
