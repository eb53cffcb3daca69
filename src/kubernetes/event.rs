//! One message out of many: tables of events, logs, and texts with several messages one after the other.

use super::flat::Flat;

/// A part of a text that holds one message at the most.
pub(super) struct Piece {
    pub(super) kind: PieceKind,
    pub(super) text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PieceKind {
    /// An event of type `Warning`.
    Warning,
    /// An event of type `Normal`: nothing went wrong.
    Normal,
    /// Text that is neither.
    Plain,
}

/// How messages of kubelet and of the attach controller begin.
const BEGINNINGS: [&str; 10] = [
    "MountVolume.",
    "MapVolume.",
    "UnmountVolume.",
    "UnmapVolume.",
    "AttachVolume.",
    "DetachVolume.",
    "UnmountDevice failed",
    "Multi-Attach error for volume",
    "Unable to attach or mount volumes:",
    "Unable to mount volumes for pod",
];

/// Splits a text into its messages.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mut rows: Vec<Piece> = vec![];
    for line in text.lines() {
        match (row_kind(line), rows.last_mut()) {
            (None, Some(row)) => {
                row.text.push('\n');
                row.text.push_str(line);
            }
            (kind, _) => rows.push(Piece { kind: kind.unwrap_or(PieceKind::Plain), text: line.to_owned() }),
        }
    }
    rows.iter().flat_map(split_messages).collect()
}

/// Whether a line begins an event, as `kubectl describe` and `kubectl get events` print it, or an entry of a log of
/// Kubernetes' own form (`E1201 00:42:04.1 …`).
fn row_kind(line: &str) -> Option<PieceKind> {
    /// Before the type stand the namespace, the time since it was last seen, and `(x6 over 11m)`.
    const COLUMNS: usize = 6;
    let words: Vec<&str> = line.split_whitespace().take(COLUMNS + 1).collect();
    words.windows(2).find_map(|pair| match *pair {
        ["Warning", reason] if is_reason(reason) => Some(PieceKind::Warning),
        ["Normal", reason] if is_reason(reason) => Some(PieceKind::Normal),
        // Most errors in a log are about something else.
        [entry, time] if is_entry(entry) && is_clock(time) => Some(PieceKind::Plain),
        _ => None,
    })
}

/// A word in camel case, such as `FailedMount`.
fn is_reason(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.contains(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_alphanumeric())
}

fn is_clock(word: &str) -> bool {
    matches!(word.as_bytes(), [a, b, b':', c, d, b':', ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()))
}

/// Severity, month and day: `E1201`.
fn is_entry(word: &str) -> bool {
    matches!(word.as_bytes(), [b'I' | b'W' | b'E' | b'F', date @ ..] if date.len() == 4 && date.iter().all(u8::is_ascii_digit))
}

/// Splits where a second message begins, and where a second image is said to be used.
fn split_messages(row: &Piece) -> Vec<Piece> {
    let flat = Flat::new(&row.text);
    let mut starts: Vec<usize> = BEGINNINGS.iter().flat_map(|beginning| flat.places(beginning)).collect();
    if starts.is_empty() {
        starts = flat.places("rbd image ");
    }
    starts.sort_unstable();
    let ends = starts.iter().copied().skip(1).chain([flat.text().len()]);
    let mut from = 0;
    let mut pieces = Vec::new();
    for end in ends {
        pieces.push(Piece { kind: row.kind, text: flat.text()[from..end].to_owned() });
        from = end;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds_and_first_words(text: &str) -> Vec<(PieceKind, String)> {
        let word = |piece: &Piece| piece.text.split_whitespace().last().unwrap_or_default().to_owned();
        pieces(text).iter().map(|piece| (piece.kind, word(piece))).collect()
    }

    #[test]
    fn rows_of_events_and_entries_of_logs_are_told_apart() {
        use PieceKind::{Normal, Plain, Warning};
        let described = "Events:\n  Type  Reason  Age  From  Message\n  ----  ------  ---  ----  -------\n\
            \x20 Normal   Scheduled    16m                default-scheduler  a\n\
            \x20 Warning  FailedMount  29s (x6 over 11m)  kubelet            b\nc\n";
        assert_eq!(
            kinds_and_first_words(described),
            [(Plain, "-------".into()), (Normal, "a".into()), (Warning, "c".into())]
        );
        let listed = "LAST SEEN TYPE REASON OBJECT MESSAGE\nweb  11m (x6 over 12m)  Warning  FailedMount  pod/a  d\n";
        assert_eq!(kinds_and_first_words(listed), [(Plain, "MESSAGE".into()), (Warning, "d".into())]);
        let logged = "Dec 01 00:42:04 node-a kubelet[123]: E1201 00:42:04.100000     123 nested.go:1] e\n\
            I1201 00:42:05.1 1 r.go:1] f";
        assert_eq!(kinds_and_first_words(logged), [(Plain, "e".into()), (Plain, "f".into())]);
    }

    #[test]
    fn prose_is_one_piece_and_messages_in_a_row_are_several() {
        assert_eq!(pieces("Warning signs\nand a second line").len(), 1);
        assert_eq!(pieces("MountVolume.SetUp failed: a MountVolume.SetUp failed: b").len(), 2);
        assert_eq!(pieces("rbd image a/b is still being used\nrbd image a/c is still being used").len(), 2);
        assert_eq!(pieces("").len(), 0);
    }
}
