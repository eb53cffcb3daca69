//! Remedies and what came of them, as trees for people.

use std::fmt;

use super::{By, Outcome, Released, Remedy, Risk, Step};
use crate::tree;

/// Remedies as a tree for people, a line or a few for each, 80 columns wide where paths allow; nothing where there are
/// none.
pub fn tree(remedies: &[Remedy]) -> impl fmt::Display {
    Tree(remedies)
}

struct Tree<'a>(&'a [Remedy]);

impl fmt::Display for Tree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        branches(f, "what frees it", self.0)
    }
}

fn branches<T: fmt::Display>(f: &mut fmt::Formatter<'_>, title: &str, items: &[T]) -> fmt::Result {
    let Some(last) = items.len().checked_sub(1) else { return Ok(()) };
    f.write_str(title)?;
    for (index, item) in items.iter().enumerate() {
        tree::node(f, "", index == last, false, &[item.to_string()])?;
    }
    Ok(())
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        branches(f, "what was done", &self.steps)?;
        if !self.steps.is_empty() {
            f.write_str("\n")?;
        }
        match &self.left {
            _ if self.is_free() => f.write_str("it is free"),
            Some(left) => write!(f, "{left}"),
            None => f.write_str("what is left was not looked at: the deadline passed"),
        }
    }
}

impl fmt::Display for Remedy {
    /// One line, with the risk where it is not safe, and who does it where this library does not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.risk, self.by) {
            (Risk::Safe, By::Library) => write!(f, "{}", self.action),
            (Risk::Safe, By::Hand) => write!(f, "by hand: {}", self.action),
            (risk, _) => write!(f, "{risk}: {}", self.action),
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Safe => "safe",
            Self::ForAPerson => "for a person",
            Self::Lossy => "lossy",
        })
    }
}

impl fmt::Display for Step {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.remedy.action, self.outcome)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Gone => f.write_str("gone already"),
            Self::Changed => f.write_str("not touched, it is another by now"),
            Self::Failed(error) => write!(f, "failed, {error}"),
            Self::InUse => f.write_str("not tried, something on it is in use or suspended"),
            Self::LeftToAPerson => f.write_str("left to a person"),
            Self::NotAllowed => f.write_str("not allowed"),
            Self::TooLate => f.write_str("not tried, the deadline passed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceNumber;
    use crate::error::Error;
    use crate::remedy::Action;

    fn remedy(action: Action, risk: Risk, by: By) -> Remedy {
        Remedy { action, risk, by, on: Some(DeviceNumber::new(252, 0)) }
    }

    fn find() -> Remedy {
        remedy(Action::FindUser { file_system: "ext4".into() }, Risk::ForAPerson, By::Hand)
    }

    fn unregister() -> Remedy {
        remedy(Action::Unregister, Risk::Safe, By::Library)
    }

    #[test]
    fn remedies_are_a_tree_of_80_columns() {
        let expected = "\
what frees it
├─ unregister from bcache
└─ for a person: find what keeps the ext4 file system live: an overlay on it,
      a descriptor on its way through a socket,
      or a mount namespace that nobody is in";
        assert_eq!(tree(&[unregister(), find()]).to_string(), expected);
        assert_eq!(tree(&[]).to_string(), "");
    }

    #[test]
    fn what_was_done_says_what_came_of_each() {
        let outcomes = [Outcome::Done, Outcome::Failed(Error::from_errno("unregister", libc::EBUSY)), Outcome::TooLate];
        let steps = outcomes.map(|outcome| Step { remedy: unregister(), outcome }).into();
        let released = Released { steps, left: None, is_mapped: true };
        let expected = "\
what was done
├─ unregister from bcache: done
├─ unregister from bcache: failed, unregister: busy (errno 16)
└─ unregister from bcache: not tried, the deadline passed
what is left was not looked at: the deadline passed";
        assert_eq!(released.to_string(), expected);
        assert!(!released.is_free());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn json_has_the_outcome_beside_the_action_and_the_error_as_text() {
        let outcome = Outcome::Failed(Error::from_errno("unregister", libc::EBUSY));
        let json = serde_json::to_value(Step { remedy: unregister(), outcome }).unwrap();
        assert_eq!((&json["action"], &json["outcome"]), (&"unregister".into(), &"failed".into()));
        assert_eq!(json["error"], "unregister: busy (errno 16)");
    }
}
