//! Tests against the kernel's real rbd driver: `tests/run guest` boots a guest that has it and runs them there, one
//! after the other. The cluster is outside.

mod busy;
mod detached;
mod environment;
mod holder;
mod inside;
mod listing;
mod mapping;
mod operator;
mod outage;
mod refusals;
mod release;
mod support;
