//! Deadlines among the arguments.

use std::time::Duration;

/// A number of seconds, also with a fraction.
pub fn seconds(text: &str) -> Result<Duration, &'static str> {
    let number = text.parse().ok().filter(|seconds| *seconds > 0.0);
    number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or("not a number of seconds above 0")
}
