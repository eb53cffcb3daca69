//! XML of the same shape as the JSON: an element for each key, and in a list `features` elements `feature`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value of JSON that keeps the order of its keys.
enum Node {
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// The same as XML. Pretty, it ends in an empty line, as `rbd`'s does.
pub fn from_json(name: &str, json: &str, pretty: bool) -> serde_json::Result<String> {
    let mut text = String::new();
    serde_json::from_str::<Node>(json)?.write(name, pretty.then_some(0), &mut text);
    Ok(text)
}

impl Node {
    fn write(&self, name: &str, depth: Option<usize>, text: &mut String) {
        let indent = || " ".repeat(depth.unwrap_or(0));
        let end = if depth.is_some() { "\n" } else { "" };
        let deeper = depth.map(|depth| depth + 1);
        text.push_str(&format!("{}<{name}>", indent()));
        match self {
            Self::Text(value) => text.push_str(&escaped(value)),
            Self::List(items) => {
                text.push_str(end);
                items.iter().for_each(|item| item.write(name.strip_suffix('s').unwrap_or(name), deeper, text));
                text.push_str(&indent());
            }
            Self::Map(entries) => {
                text.push_str(end);
                entries.iter().for_each(|(key, value)| value.write(key, deeper, text));
                text.push_str(&indent());
            }
        }
        text.push_str(&format!("</{name}>{end}"));
    }
}

fn escaped(text: &str) -> String {
    let escape = |c| match c {
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '&' => "&amp;".to_owned(),
        '\'' => "&apos;".to_owned(),
        '"' => "&quot;".to_owned(),
        // `rbd` leaves these two as they are, and its other control characters are those of ASCII.
        '\t' | '\n' => c.to_string(),
        c if c.is_ascii_control() => format!("&#x{:02x};", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Text(value.to_string()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Text(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Text(value.to_string()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Node, E> {
                Ok(Node::Text(value.into()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Node::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Node::Map(entries))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}
