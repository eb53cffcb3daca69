//! The declarations of ceph-sys equal the installed headers, which are the truth: each constant's value, each struct's
//! size and alignment, each field's offset, size and type, each type, each function's type and address.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::mem::offset_of;
use std::slice;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Number(u64),
    Text(&'static CStr),
}

/// What ceph-sys says.
// The table makes a u64 of whatever an item is.
#[allow(clippy::unnecessary_cast)]
fn bound() -> Vec<(&'static str, Value)> {
    include!(concat!(env!("OUT_DIR"), "/table.rs"))
}

fn field_size<T, F>(_: fn(&T) -> *const F) -> usize {
    size_of::<F>()
}

/// `Value` of the C++ file.
#[repr(C)]
struct HeaderValue {
    number: u64,
    text: *const c_char,
    unknown: bool,
}

unsafe extern "C" {
    static systest_values: [HeaderValue; 0];
    static systest_count: usize;
}

impl HeaderValue {
    fn get(&self) -> Option<Value> {
        if self.unknown {
            None
        } else if self.text.is_null() {
            Some(Value::Number(self.number))
        } else {
            // SAFETY: a string literal of the headers.
            Some(Value::Text(unsafe { CStr::from_ptr(self.text) }))
        }
    }
}

/// What the headers say; `None` where they are too old to say it.
fn headers() -> Vec<Option<Value>> {
    // SAFETY: the C++ file defines both, and nothing changes them.
    let values = unsafe { slice::from_raw_parts((&raw const systest_values).cast::<HeaderValue>(), systest_count) };
    values.iter().map(HeaderValue::get).collect()
}

#[test]
fn every_declaration_equals_the_installed_headers() {
    let (bound, headers) = (bound(), headers());
    assert_eq!(bound.len(), headers.len());
    let mut differences = Vec::new();
    for ((what, bound), header) in bound.iter().zip(&headers) {
        match header {
            Some(header) if header == bound => {}
            Some(_) if what.starts_with("type of ") => differences.push(format!("{what}: another in the headers")),
            Some(header) => differences.push(format!("{what}: {bound:?} here, {header:?} in the headers")),
            None => {}
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn the_table_holds_the_whole_interface() {
    let mut kinds = BTreeMap::<&str, usize>::new();
    for (what, _) in bound() {
        *kinds.entry(what.split_once(" of ").unwrap().0).or_default() += 1;
    }
    assert_eq!((kinds["address"], kinds["value"], kinds["alignment"]), (519, 204, 33), "functions, constants, structs");
}
