//! Rust's types as C++ spells them, and the C++ file.

use std::fmt::Write;

use quote::ToTokens;
use syn::{FnArg, GenericArgument, PathArguments, PointerMutability, ReturnType, Type};

/// The C++ type that a declaration in Rust stands for. Templates instead of declarators, so that types nest.
pub fn type_name(ty: &Type) -> String {
    match ty {
        Type::Ptr(pointer) => {
            let constant = match pointer.mutability {
                PointerMutability::Const(_) => "const ",
                PointerMutability::Mut(_) => "",
            };
            format!("Pointer<{constant}{}>", type_name(&pointer.elem))
        }
        Type::Array(array) => format!("Array<{}, {}>", type_name(&array.elem), expression(&array.len)),
        Type::FnPtr(function) => {
            let arguments = function.inputs.iter().map(|argument| type_name(&argument.ty)).collect::<Vec<_>>();
            format!("Pointer<{}>", function_type(&function.output, &arguments))
        }
        Type::Path(path) => {
            let last = path.path.segments.last().expect("a path has a segment");
            match &last.arguments {
                // `Option` of a function pointer, which may be null.
                PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                    Some(GenericArgument::Type(inner)) => type_name(inner),
                    _ => panic!("not a C type: {}", ty.to_token_stream()),
                },
                _ => named(&last.ident.to_string()),
            }
        }
        _ => panic!("not a C type: {}", ty.to_token_stream()),
    }
}

/// The C++ type of a function.
pub fn function_type(output: &ReturnType, arguments: &[String]) -> String {
    let output = match output {
        ReturnType::Default => "void".to_owned(),
        ReturnType::Type(_, ty) => type_name(ty),
    };
    format!("Function<{}>", [&[output], arguments].concat().join(", "))
}

/// The C++ types of a function's arguments.
pub fn arguments(function: &syn::Signature) -> Vec<String> {
    let of = |argument: &FnArg| match argument {
        FnArg::Typed(argument) => type_name(&argument.ty),
        FnArg::Receiver(_) => panic!("a C function has no self"),
    };
    function.inputs.iter().map(of).collect()
}

fn named(name: &str) -> String {
    let spelling = match name {
        "c_void" => "void",
        "c_char" => "char",
        "c_int" => "int",
        "c_uchar" => "unsigned char",
        "c_uint" => "unsigned int",
        "c_long" => "long",
        "c_ulong" => "unsigned long",
        "i8" => "int8_t",
        "i64" => "int64_t",
        "u8" => "uint8_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        "isize" => "ssize_t",
        "f32" => "float",
        "f64" => "double",
        // C's own, of the same name.
        name => name,
    };
    spelling.to_owned()
}

fn expression(length: &syn::Expr) -> String {
    length.to_token_stream().to_string().replace("usize", "")
}

/// The file that gives `values` to the test.
pub fn file(values: &[String]) -> String {
    let mut text = String::from(
        r#"#include <rados/librados.h>
#include <rbd/librbd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

template <class T> using Pointer = T *;
template <class T, std::size_t length> using Array = T[length];
template <class Result, class... Arguments> using Function = Result(Arguments...);

// What Rust has for an enum: an integer.
template <class T, bool = std::is_enum_v<T>> struct Plain { using type = T; };
template <class T> struct Plain<T, true> { using type = std::underlying_type_t<T>; };

template <class T, class U> constexpr bool same = std::is_same_v<T, U>;

// As in the test.
struct Value {
  std::uint64_t number = 0;
  const char *text = nullptr;
  bool unknown = false;

  Value() : unknown(true) {}
  Value(const char *string) : text(string) {}
  template <class T> Value(T value) : number(static_cast<std::uint64_t>(value)) {}
};

extern "C" {
extern const Value systest_values[] = {
"#,
    );
    for value in values {
        writeln!(text, "{value},").expect("a String takes it");
    }
    text.push_str("};\nextern const std::size_t systest_count = sizeof systest_values / sizeof *systest_values;\n}\n");
    text
}
