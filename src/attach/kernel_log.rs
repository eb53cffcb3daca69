//! What the kernel logs while a map or an unmap is under way.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// What the kernel's rbd driver and its Ceph client log from one moment on (`/dev/kmsg`); nothing where that cannot be
/// read (it takes CAP_SYSLOG, and a container has none).
///
/// The lines do not say for whom: another map at the same time may have caused one.
///
/// ```no_run
/// # use rbd::{attach::KernelLog, krbd::{Krbd, MapRequest}};
/// # fn map(request: &MapRequest) {
/// let log = KernelLog::from_now();
/// if let Err(error) = Krbd::new().map(request) {
///     eprintln!("{error}: {:?}", log.lines()); // rbd: image pvc-9 does not exist
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct KernelLog(Option<File>);

/// Nobody needs more of them to see what went wrong.
const MOST_LINES: usize = 20;

impl KernelLog {
    /// Lines from now on.
    pub fn from_now() -> Self {
        let log = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        Self(log.and_then(|mut log| log.seek(SeekFrom::End(0)).map(|_| log)).ok())
    }

    /// The lines so far, each once, and the last 20 where they are more. That a session was established is left out.
    pub fn lines(self) -> Vec<String> {
        let Some(mut log) = self.0 else { return Vec::new() };
        // What a record has at most, with all that is escaped in it (CONSOLE_EXT_LOG_MAX in linux/printk.h).
        let mut record = [0; 8192];
        let mut lines: Vec<String> = Vec::new();
        loop {
            match log.read(&mut record) {
                Ok(0) => break,
                Ok(length) => {
                    let line = ceph_line(&String::from_utf8_lossy(&record[..length]));
                    lines.extend(line.filter(|line| !lines.contains(line)));
                }
                // Records were overwritten before they were read; the next read goes on after them.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Err(_) => break,
            }
        }
        lines.split_off(lines.len().saturating_sub(MOST_LINES))
    }
}

/// The text of a record (`PRIORITY,NUMBER,TIME,FLAGS;TEXT`, dev-kmsg in the kernel's ABI documents) if it is Ceph's.
fn ceph_line(record: &str) -> Option<String> {
    let (_, text) = record.split_once(';')?;
    let line = text.lines().next()?;
    let ours = ["rbd", "libceph", "ceph:"].iter().any(|prefix| line.starts_with(prefix));
    let is_success =
        line.ends_with(" session established") || line.starts_with("libceph: client") && line.contains(" fsid ");
    (ours && !is_success).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_rbd_and_libceph_are_taken_without_their_prefix() {
        let taken = ceph_line("4,707,5038614,-;libceph: mon0 (1)127.0.0.2:6789 socket closed\n SUBSYSTEM=x\n");
        assert_eq!(taken.as_deref(), Some("libceph: mon0 (1)127.0.0.2:6789 socket closed"));
        let taken = ceph_line("4,708,1,-;rbd: image pvc-1: image uses unsupported features: 0x40\n");
        assert_eq!(taken.as_deref(), Some("rbd: image pvc-1: image uses unsupported features: 0x40"));
        let taken = ceph_line("4,708,1,-;rbd0: p1\n");
        assert_eq!(taken.as_deref(), Some("rbd0: p1"));
    }

    #[test]
    fn other_lines_are_left_out() {
        assert_eq!(ceph_line("6,1,0,-;usb 1-1: new device\n"), None);
        assert_eq!(ceph_line("without a prefix"), None);
        assert_eq!(ceph_line("6,1,0,-;libceph: mon0 (1)127.0.0.2:6789 session established\n"), None);
        assert_eq!(ceph_line("6,1,0,-;libceph: client4276 fsid 8ebac251-7cd6-4bad-ade1-08cb6da34101\n"), None);
    }
}
