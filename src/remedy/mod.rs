//! What frees a device: as data, and done.
//!
//! [`remedies`] says what must be done so that a device of this host can be let go, in the order in which it must be
//! done: first what is safe, then what loses something. Each [`Remedy`] has its [`Risk`], and says whether this library
//! carries it out or a person must. [`Release`] carries out those of the library.
//!
//! ```no_run
//! use rbd::Holders;
//! use rbd::krbd::Krbd;
//!
//! # fn main() -> rbd::Result<()> {
//! let device = Krbd::new().device(0)?;
//! let holders = Holders::of_node("/dev/rbd0")?.run()?;
//! let remedies = rbd::remedy::remedies(&holders, device.as_ref());
//! println!("{}", rbd::remedy::tree(&remedies));
//! # Ok(())
//! # }
//! ```

mod action;
mod file_system;
mod namespace;
mod outcome;
mod pass;
mod plan;
mod release;
mod report;
mod stacked;
mod sys;

pub use action::Action;
pub use outcome::{Outcome, Released, Step};
pub use plan::remedies;
pub use release::{Policy, Release};
pub use report::tree;

use crate::DeviceNumber;

/// One thing that can be done to free a device or an image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Remedy {
    /// What is done, and to what.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub action: Action,
    /// What it can cost.
    pub risk: Risk,
    /// Who carries it out.
    pub by: By,
    /// The block device of this host that it helps to free; `None` where it is done to the cluster.
    pub on: Option<DeviceNumber>,
}

/// What a [`Remedy`] can cost, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Risk {
    /// Nothing is lost: it fails where somebody still needs what it closes.
    Safe,
    /// A person must decide: whether a process may be ended cannot be told from here.
    ForAPerson,
    /// Data that was not written back, or what somebody has open, is lost.
    Lossy,
}

/// Who carries out a [`Remedy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum By {
    /// This library, if it is asked to.
    Library,
    /// A person, or another program: it is advice.
    Hand,
}
