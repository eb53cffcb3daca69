#!/usr/bin/env bash
# Writes src/bindings.rs anew from the installed headers; with --check says whether it would differ, and exits 1 if so.
# The headers must be those of the oldest Ceph that the crate supports, 16.2 (CEPH_INCLUDE_DIR names others than the
# system's): a newer function in there would keep every program from starting on an older library. Needs libclang,
# librados-dev and librbd-dev.
set -euo pipefail
cd "$(dirname "$0")"

output=$(cargo build -p ceph-sys --features buildtime-bindgen --message-format json |
    sed -n 's/.*"reason":"build-script-executed".*ceph-sys.*"out_dir":"\([^"]*\)".*/\1/p')
rustfmt --edition 2024 --config-path .. --emit stdout --quiet "$output/bindings.rs" >"$output/formatted.rs"
if [ "${1-}" = --check ]; then
    diff -u src/bindings.rs "$output/formatted.rs"
else
    cp "$output/formatted.rs" src/bindings.rs
fi
