//! The declarations in the sources of ceph-sys, and the two tables of what is to be equal about them.

use std::fmt::Write;

use syn::parse::{ParseStream, Parser};
use syn::{Fields, ForeignItem, ForeignItemFn, Item, ItemConst, ItemStruct, LitStr, Token, Type, Visibility};

use crate::cpp;

/// Line by line the same thing: for Rust a description and a value, for C++ a value.
#[derive(Default)]
pub struct Table {
    pub rust: String,
    pub cpp: Vec<String>,
}

impl Table {
    /// Adds what `items` declare. They are in the Rust module `path`, and in the headers from `release` on.
    pub fn items(&mut self, items: &[&Item], path: &str, release: Option<&str>) {
        for item in items {
            match item {
                Item::Const(constant) => self.constant(constant, path),
                Item::Struct(structure) => self.structure(structure, path, release),
                Item::Type(alias) => {
                    let name = alias.ident.to_string();
                    let cpp = format!("same<Plain<{name}>::type, {}>", cpp::type_name(&alias.ty));
                    self.line(&format!("type of {name}"), "1", &cpp, release);
                }
                Item::ForeignMod(block) => {
                    for item in &block.items {
                        let ForeignItem::Fn(function) = item else { panic!("bindgen makes functions only") };
                        self.function(function, path);
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds a function of `newer.rs`: no address, for the program must start without it.
    pub fn newer_function(&mut self, function: &ForeignItemFn, release: &str) {
        self.signature(function, Some(release));
    }

    fn constant(&mut self, constant: &ItemConst, path: &str) {
        let name = constant.ident.to_string();
        let value = match &*constant.ty {
            Type::Reference(_) => format!("Value::Text({path}::{name})"),
            _ => format!("Value::Number({path}::{name} as u64)"),
        };
        // Newer headers say of themselves that they are newer.
        if name.starts_with("LIBRBD_VER") {
            self.guarded(&format!("value of {name}"), &value, &name, "LIBRBD_VER_MINOR == 16");
        } else {
            self.raw(&format!("value of {name}"), &value, &name);
        }
    }

    fn structure(&mut self, structure: &ItemStruct, path: &str, release: Option<&str>) {
        let name = structure.ident.to_string();
        let rust = format!("{path}::{name}");
        let Fields::Named(fields) = &structure.fields else { panic!("{name}: C's fields have names") };
        // An opaque struct: the headers do not say what is in it either.
        if fields.named.iter().any(|field| !matches!(field.vis, Visibility::Public(_))) {
            return;
        }
        self.line(&format!("size of {name}"), &format!("size_of::<{rust}>()"), &format!("sizeof({name})"), release);
        self.line(
            &format!("alignment of {name}"),
            &format!("align_of::<{rust}>()"),
            &format!("alignof({name})"),
            release,
        );
        for field in &fields.named {
            let ident = field.ident.as_ref().expect("a named field").to_string();
            // A field whose C name is a word of Rust.
            let c = ident.trim_end_matches('_');
            let what = format!("{name}.{c}");
            self.line(
                &format!("offset of {what}"),
                &format!("offset_of!({rust}, {ident})"),
                &format!("offsetof({name}, {c})"),
                release,
            );
            self.line(
                &format!("size of {what}"),
                &format!("field_size(|it: &{rust}| &raw const it.{ident})"),
                &format!("sizeof({name}::{c})"),
                release,
            );
            let cpp = format!("same<decltype({name}::{c}), {}>", cpp::type_name(&field.ty));
            self.line(&format!("type of {what}"), "1", &cpp, release);
        }
    }

    fn function(&mut self, function: &ForeignItemFn, path: &str) {
        let name = function.sig.ident.to_string();
        self.line(
            &format!("address of {name}"),
            &format!("{path}::{name} as *const ()"),
            &format!("reinterpret_cast<std::uintptr_t>(&{name})"),
            None,
        );
        self.signature(function, None);
    }

    fn signature(&mut self, function: &ForeignItemFn, release: Option<&str>) {
        let name = function.sig.ident.to_string();
        let ty = cpp::function_type(&function.sig.output, &cpp::arguments(&function.sig));
        self.line(&format!("type of {name}"), "1", &format!("same<decltype({name}), {ty}>"), release);
    }

    /// librbd's minor version is the release's number.
    fn line(&mut self, what: &str, rust: &str, cpp: &str, release: Option<&str>) {
        let rust = format!("Value::Number({rust} as u64)");
        match release.and_then(|release| release.split_once('.')) {
            Some((number, _)) => self.guarded(what, &rust, cpp, &format!("LIBRBD_VER_MINOR >= {number}")),
            None => self.raw(what, &rust, cpp),
        }
    }

    fn guarded(&mut self, what: &str, rust: &str, cpp: &str, condition: &str) {
        self.raw(what, rust, &format!("\n#if {condition}\n{cpp}\n#else\nValue()\n#endif\n"));
    }

    fn raw(&mut self, what: &str, rust: &str, cpp: &str) {
        writeln!(self.rust, "({what:?}, {rust}),").expect("a String takes it");
        self.cpp.push(cpp.to_owned());
    }
}

/// What a file offers that stands for something in C.
pub fn public_items(file: &syn::File) -> Vec<&Item> {
    let public = |item: &&Item| match item {
        Item::Const(item) => matches!(item.vis, Visibility::Public(_)),
        Item::Struct(item) => matches!(item.vis, Visibility::Public(_)) && item.generics.params.is_empty(),
        Item::Type(item) => matches!(item.vis, Visibility::Public(_)),
        Item::ForeignMod(_) => true,
        _ => false,
    };
    file.items.iter().filter(public).collect()
}

/// The functions in the calls of `newer!`, each with its release.
pub fn newer_functions(file: &syn::File) -> Vec<(String, ForeignItemFn)> {
    let mut functions = Vec::new();
    for item in &file.items {
        let Item::Macro(call) = item else { continue };
        if call.ident.is_some() || !call.mac.path.is_ident("newer") {
            continue;
        }
        let parse = |input: ParseStream<'_>| {
            let release = input.parse::<LitStr>()?.value();
            input.parse::<Token![,]>()?;
            while !input.is_empty() {
                functions.push((release.clone(), input.parse::<ForeignItemFn>()?));
            }
            Ok(())
        };
        parse.parse2(call.mac.tokens.clone()).expect("a call of newer!");
    }
    functions
}
