//! Manifests as text.

use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};

/// With each text quoted: what Kubernetes reads takes `yes`, `1_000` or `12:30` for something else.
pub(super) fn write(manifest: &impl Serialize) -> Result<String> {
    let mut text = String::new();
    write_into(&mut text, manifest)?;
    Ok(text)
}

pub(super) fn write_into(text: &mut String, manifest: &impl Serialize) -> Result<()> {
    let options = serde_saphyr::ser_options! { quote_all: true };
    serde_saphyr::to_fmt_writer_with_options(text, manifest, options)
        .map_err(|error| Error::new(ErrorKind::InvalidInput, "write manifest").with_source(error))
}

/// YAML or JSON, which is a part of it. The error does not quote the manifest, which may hold a key.
pub(super) fn read(text: &str) -> Result<Value> {
    serde_saphyr::from_str(text).map_err(|error| {
        let error = error.without_snippet().location().map(|at| format!("line {}, column {}", at.line(), at.column()));
        Error::new(ErrorKind::InvalidInput, "read manifest").with_hint(format!(
            "it is no YAML or JSON of one object{}",
            error.map_or(String::new(), |at| format!(": {at}"))
        ))
    })
}
