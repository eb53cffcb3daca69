//! `$name` and `${name}` in the values of a configuration.

/// How deep options may name each other; one that names itself ends here, with its name left as it stands.
const DEPTH: usize = 10;

/// Puts in what `value_of` knows; what it does not know stays as it is.
pub(super) fn expand(text: &str, value_of: &dyn Fn(&str) -> Option<String>) -> String {
    expand_to(text, value_of, &mut Vec::new())
}

fn expand_to(text: &str, value_of: &dyn Fn(&str) -> Option<String>, within: &mut Vec<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let Some((name, length)) = variable(after) else {
            expanded.push('$');
            rest = after;
            continue;
        };
        let is_open = within.len() < DEPTH && !within.iter().any(|outer| outer == name);
        match value_of(name).filter(|_| is_open) {
            Some(value) => {
                within.push(name.to_owned());
                expanded.push_str(&expand_to(&value, value_of, within));
                within.pop();
            }
            None => {
                expanded.push('$');
                expanded.push_str(&after[..length]);
            }
        }
        rest = &after[length..];
    }
    expanded.push_str(rest);
    expanded
}

/// The name after a `$`, and how many bytes it takes there.
fn variable(after: &str) -> Option<(&str, usize)> {
    if let Some(braced) = after.strip_prefix('{') {
        let name = braced.split_once('}')?.0;
        return Some((name, name.len() + 2));
    }
    let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
    (end > 0).then(|| (&after[..end], end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value_of(name: &str) -> Option<String> {
        match name {
            "a" => Some("1".into()),
            "b" => Some("<$a>".into()),
            "x" => Some("$y".into()),
            "y" => Some("$x".into()),
            _ => None,
        }
    }

    #[test]
    fn known_names_are_replaced_and_others_stay() {
        for (text, expanded) in [
            ("$a.$b", "1.<1>"),
            ("${a}b $ab", "1b $ab"),
            ("$", "$"),
            ("$$a", "$1"),
            ("${a", "${a"),
            ("$x", "$x"),
            ("100$ $-", "100$ $-"),
        ] {
            assert_eq!(expand(text, &value_of), expanded);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[$\\{\\}abxyé ]{0,40}") {
            expand(&text, &value_of);
        }
    }
}
