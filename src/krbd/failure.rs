//! How far a map or an unmap had come when it failed.

use std::fmt;

/// How far a map or an unmap had come when it failed; [`Error::stage`](crate::Error::stage) says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Stage {
    /// The request was looked at; the kernel was not touched.
    Preflight,
    /// The kernel's module was looked for, or loaded.
    Module,
    /// The key was handed to the kernel's keyring.
    AddKey,
    /// The file of the rbd bus was opened for writing.
    Open,
    /// The kernel carried the request out.
    Write,
    /// The mapping is there; its device node was looked for.
    Node,
    /// The mapping was there and something else was waited for.
    Wait,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Preflight => "preflight",
            Self::Module => "module",
            Self::AddKey => "add_key",
            Self::Open => "open",
            Self::Write => "write",
            Self::Node => "node",
            Self::Wait => "wait",
        })
    }
}
