//! Why the kernel refused: causes with their evidence, the best supported first.

use std::fmt;

/// What may stand behind the bare errno of a failed map or unmap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Explanation {
    /// The possible causes, the best supported first.
    pub causes: Vec<Cause>,
    /// What the kernel's rbd driver and its Ceph client logged meanwhile. They do not say for whom: another map at the
    /// same time may have caused a line.
    pub kernel_log: Vec<String>,
}

/// A possible cause.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Cause {
    /// How well it is supported.
    pub support: Support,
    /// What it is.
    pub cause: String,
    /// What was seen that speaks for it; empty where nothing was.
    pub evidence: String,
    /// What to do.
    pub remedy: String,
}

/// How well a cause is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Support {
    /// What was seen leaves no other.
    Certain,
    /// Something speaks for it.
    Likely,
    /// The errno can mean it.
    Possible,
}

impl Explanation {
    /// Adds a cause, behind those that are supported as well or better.
    pub(super) fn add(
        &mut self,
        support: Support,
        cause: impl Into<String>,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let cause = Cause { support, cause: cause.into(), evidence: evidence.into(), remedy: remedy.into() };
        let place = self.causes.partition_point(|known| known.support <= support);
        self.causes.insert(place, cause);
    }

    /// A line of the kernel's log that contains `text`.
    #[cfg(feature = "librados")]
    pub(super) fn logged(&self, text: &str) -> Option<&str> {
        self.kernel_log.iter().map(String::as_str).find(|line| line.contains(text))
    }
}

/// The causes with evidence and remedy, and the kernel's lines: a few lines of text.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, cause) in self.causes.iter().enumerate() {
            let line_break = if n == 0 { "" } else { "\n" };
            write!(f, "{line_break}{cause}")?;
        }
        for line in &self.kernel_log {
            write!(f, "\nkernel (perhaps of another's map): {line}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.support, self.cause)?;
        if !self.evidence.is_empty() {
            write!(f, " ({})", self.evidence)?;
        }
        write!(f, "; {}", self.remedy)
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Possible => "possible",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_supported_cause_comes_first_and_equals_keep_their_order() {
        let mut explanation = Explanation::default();
        explanation.add(Support::Possible, "a", "", "wait");
        explanation.add(Support::Certain, "b", "seen", "act");
        explanation.add(Support::Possible, "c", "", "wait");
        explanation.add(Support::Likely, "d", "", "look");
        let order: String = explanation.causes.iter().map(|cause| cause.cause.as_str()).collect();
        assert_eq!(order, "bdac");
        assert_eq!(explanation.causes[0].to_string(), "certain: b (seen); act");
    }
}
