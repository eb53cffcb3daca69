//! The features of an image, and plans for changing them.

mod plan;
mod set;

pub use plan::{Cascade, FeatureChange, FeaturePlan, FeatureStep};
pub use set::{Features, Unsupported};
