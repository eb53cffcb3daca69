//! Messages that were wrapped, cut, and sent through Windows.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rbd::kubernetes::FailureMessage;

/// Breaks a text between words, so that no line is wider than `width` where words allow.
fn wrap(text: &str, width: usize, line_end: &str) -> String {
    let mut wrapped = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        if column > 0 && column + 1 + word.len() > width {
            wrapped.push_str(line_end);
            column = 0;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += word.len();
    }
    wrapped
}

/// Breaks a text at the width, as a terminal does.
fn cut(text: &str, width: usize, line_end: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(width).map(|line| line.iter().collect::<String>()).collect::<Vec<_>>().join(line_end)
}

fn name() -> impl Strategy<Value = String> {
    "[a-z]([a-z0-9-]{0,20}[a-z0-9])?"
}

/// A message as Kubernetes prints it.
fn message() -> impl Strategy<Value = String> {
    let (volume, pool, image) = (name(), name(), name());
    (volume, pool, image, prop::collection::vec(name(), 1..4), 0..5).prop_map(|(volume, pool, image, names, kind)| {
        match kind {
            0 => format!(
                "MountVolume.MountDevice failed for volume \"{volume}\" : rpc error: code = Internal desc = rbd image \
                 {pool}/{image} is still being used"
            ),
            1 => format!(
                "Multi-Attach error for volume \"{volume}\" Volume is already used by pod(s) {} and {} pod(s) in \
                 different namespaces",
                names.join(", "),
                names.len()
            ),
            2 => format!(
                "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[{}], failed to \
                 process volumes=[]: timed out waiting for the condition",
                names.join(" ")
            ),
            3 => format!(
                "UnmountDevice failed for volume \"{volume}\" : rbd: failed to unmap device /dev/rbd{}, error exit \
                 status 16",
                names.len()
            ),
            _ => format!(
                "MountVolume.SetUp failed for volume \"{volume}\" : exec command cosfs {image}:/ /mnt/{image} \
                 -ouse_cache=/{pool} -oensure_diskfree={} failed, output: cosfs: There is no enough disk space for \
                 used as cache(or temporary) directory by s3fs.",
                names.len()
            ),
        }
    })
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text: String) {
        for message in FailureMessage::parse_all(&text) {
            let _ = (message.explain().to_string(), message.to_string());
        }
    }

    /// Parts of messages in any order, with breaks anywhere.
    #[test]
    fn no_heap_of_parts_makes_the_parser_panic(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "rbd image ", "a/b", " is still", "Multi-Attach error for volume \"", "already used by pod(s) ", ", ",
                "unmounted volumes=[", "]", "rbd: map failed", "exit status ", "6", "feature set mismatch", "cosfs: ",
                "rbd args: [", "map ", "unmap ", "failed", "\n", "\r\n", "  Warning  FailedMount 1s", "é", "\\n", "\\u00",
                "missing ", "command cosfs ", "-o", "use_cache=", "watcher=", "kernel: ", "\"rbd feature disable ", "(16)",
            ]),
            0..12,
        )
    ) {
        let text = parts.concat();
        let _ = FailureMessage::parse(&text).explain().to_string();
        for message in FailureMessage::parse_all(&text) {
            let _ = (message.explain().to_string(), serde_json::to_string(&message).unwrap());
        }
    }

    #[test]
    fn a_message_means_the_same_however_its_lines_are_broken(
        text in message(),
        width in 30..100usize,
        windows: bool,
        before in "[a-z ]{0,30}",
    ) {
        let line_end = if windows { "\r\n" } else { "\n" };
        let whole = FailureMessage::parse(&text);
        prop_assert!(whole.is_recognised(), "{text}");
        for indent in ["", "    "] {
            let wrapped = wrap(&text, width, &format!("{line_end}{indent}"));
            // Lines that are equally long by chance look as if a terminal had cut them.
            let widths: BTreeSet<_> = wrapped.lines().map(str::len).collect();
            prop_assume!(widths.len() > 2 || wrapped.lines().count() < 4);
            let broken = FailureMessage::parse(&wrapped);
            prop_assert_eq!((&broken.failure, &broken.volume), (&whole.failure, &whole.volume));
        }
        // With fewer lines it cannot be told whether a terminal has cut them.
        if text.len() > 3 * width {
            let broken = FailureMessage::parse(&cut(&text, width, line_end));
            prop_assert_eq!((&broken.failure, &broken.volume), (&whole.failure, &whole.volume));
        }
        let event = format!("  Normal Scheduled 3m a b{line_end}  Warning  FailedMount  3s (x2 over 5m)  kubelet  {text}");
        let other = format!("{event}{line_end}  Warning  BackOff  2s  kubelet  {before}");
        prop_assert_eq!(&FailureMessage::parse(&other).failure, &whole.failure);
    }
}
