//! Links librados and librbd.

fn main() {}
