//! Checks the tools of every dialect in every format: prints their shapes to a golden file, and
//! checks each schema.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use vctx::dialect::{Dialect, Format, OfferedTool, Profile, offered};
use vctx::memory::receipt::canonical_json;
use vctx::memory::{Encoding, TokenCounter as _};
use vctx::text::Tiktoken;

use super::golden::{golden, readable};

/// Number of hex digits of a digest that the golden file shows, so that a tool fits on a line.
const DIGEST_DIGITS: usize = 12;
/// Keywords of JSON Schema 2020-12 that plain schemas may use; the strict forms allow fewer.
const PLAIN: [&str; 17] = [
    "title",
    "type",
    "enum",
    "const",
    "oneOf",
    "anyOf",
    "items",
    "properties",
    "required",
    "description",
    "additionalProperties",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "default",
    "format",
];
/// Keywords that OpenAI's strict mode does not support.
const NOT_OPENAI: [&str; 4] = ["title", "oneOf", "default", "format"];
/// Keywords that Anthropic's strict tools do not support, in addition to `NOT_OPENAI`.
const NOT_ANTHROPIC: [&str; 4] = ["minimum", "maximum", "minItems", "maxItems"];

/// The form of a schema: plain, or one of the two strict forms of providers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Plain,
    Openai,
    Anthropic,
}

impl Form {
    fn of(format: Format, strict: bool) -> Self {
        match (format, strict) {
            (_, false) => Self::Plain,
            (Format::Anthropic, true) => Self::Anthropic,
            (_, true) => Self::Openai,
        }
    }

    /// Returns the schema of a tool in this form; `None` if this form sends no schema for the tool.
    fn schema(self, tool: &OfferedTool) -> Option<Value> {
        match self {
            Self::Plain => Some(tool.input.clone()),
            Self::Openai => {
                Some(Format::JsonSchema.tool(tool, Profile::Full, true)["parameters"].clone())
            }
            Self::Anthropic => {
                Format::Anthropic.tool(tool, Profile::Full, true).get("input_schema").cloned()
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Openai => "OPENAI",
            Self::Anthropic => "ANTHROPIC",
        }
    }

    fn knows(self, keyword: &str) -> bool {
        PLAIN.contains(&keyword)
            && (self == Self::Plain || !NOT_OPENAI.contains(&keyword))
            && (self != Self::Anthropic || !NOT_ANTHROPIC.contains(&keyword))
    }
}

/// Returns every format twice: plain and strict.
fn formats() -> impl Iterator<Item = (Format, bool)> {
    Format::ALL.iter().flat_map(|format| [(*format, false), (*format, true)])
}

fn every_tool() -> impl Iterator<Item = (Dialect, OfferedTool)> {
    Dialect::ALL.iter().flat_map(|dialect| dialect.tools().into_iter().map(|tool| (*dialect, tool)))
}

/// Returns the tools that a dialect shares with no other dialect.
fn own_tools(dialect: Dialect) -> Vec<OfferedTool> {
    if dialect == Dialect::Vctx { dialect.tools() } else { dialect.own_tools() }
}

/// Formats a tool for a provider, and replaces the tool's name, description and schema with
/// placeholders, so that only the provider's format is shown.
fn wrapping(tool: &OfferedTool, format: Format, strict: bool) -> String {
    let form = Form::of(format, strict);
    let mut wrapped = format.tool(tool, Profile::Full, strict);
    let name_of = |value: &Value| match value {
        value if *value == tool.name => Some("NAME"),
        value if *value == tool.title => Some("TITLE"),
        value if *value == tool.description => Some("DESCRIPTION"),
        value if *value == tool.output => Some("ANSWER"),
        value if Some(value) == form.schema(tool).as_ref() => Some(form.name()),
        _ => None,
    };
    fn name(value: &mut Value, name_of: &dyn Fn(&Value) -> Option<&'static str>) {
        if let Some(word) = name_of(value) {
            *value = word.into();
        } else if let Value::Object(map) = value {
            for (key, inner) in map {
                match key.ends_with("Hint") && inner.is_boolean() {
                    true => *inner = "HINT".into(),
                    false => name(inner, name_of),
                }
            }
        }
    }
    name(&mut wrapped, &name_of);
    wrapped.to_string()
}

/// Returns the alternatives of an `anyOf` or `oneOf`; for any other schema, the schema itself.
fn choices(schema: &Value) -> Vec<&Value> {
    let listed = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array);
    listed.map_or_else(|| vec![schema], |listed| listed.iter().collect())
}

/// Formats the types, enum values and bounds of a schema on one line.
fn kind(schema: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    for choice in choices(schema) {
        let mut part = match (&choice["type"], choice.get("const")) {
            (_, Some(word)) => word.to_string(),
            (Value::Array(kinds), _) => {
                kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|")
            }
            (one, _) => one.as_str().unwrap_or("any").to_owned(),
        };
        if choice != schema && choice.get("oneOf").is_some() {
            part = kind(choice);
        }
        if let Some(words) = choice["enum"].as_array() {
            part = words.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
        }
        for bound in ["minimum", "maximum", "minItems", "maxItems", "format"] {
            let Some(value) = choice.get(bound) else { continue };
            write!(part, " {bound} {value}").expect("a text takes all");
        }
        parts.push(part);
    }
    let mut kind = parts.join("|");
    if let Some(default) = schema.get("default") {
        write!(kind, " default {default}").expect("a text takes all");
    }
    kind
}

/// Lists every attribute path in a schema, with a star if it is required, and its type.
fn paths(schema: &Value, at: &str, found: &mut Vec<(String, String)>) {
    for choice in choices(schema) {
        if choice != schema && choice.get("oneOf").is_some() {
            paths(choice, at, found);
        }
        let required = choice["required"].as_array();
        for (name, inner) in choice["properties"].as_object().into_iter().flatten() {
            let needed = required.is_some_and(|all| all.iter().any(|one| one == name));
            let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            found.push((
                path.clone(),
                format!("{} {}", if needed { "*" } else { "?" }, kind(inner)),
            ));
            paths(inner, &path, found);
        }
        if let Some(items) = choice.get("items") {
            found.push((format!("{at}[]"), kind(items)));
            paths(items, &format!("{at}[]"), found);
        }
    }
}

fn paths_of(schema: Option<&Value>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    paths(schema.unwrap_or(&Value::Null), "", &mut found);
    found
}

/// Writes one line for each path of a tool's arguments: the plain schema first, then the strict
/// forms.
fn arguments(tool: &OfferedTool, text: &mut String) {
    let openai = paths_of(Form::Openai.schema(tool).as_ref());
    let anthropic = paths_of(Form::Anthropic.schema(tool).as_ref());
    for (number, (path, plain)) in paths_of(Some(&tool.input)).iter().enumerate() {
        let strict = |all: &[(String, String)]| all.get(number).map(|(_, kind)| kind.clone());
        write!(text, "  {path} {plain}").expect("a text takes all");
        for (form, kind) in [("openai", strict(&openai)), ("anthropic", strict(&anthropic))] {
            let kind = kind.filter(|kind| kind != plain);
            if let Some(kind) = kind {
                write!(text, " ; {form} {kind}").expect("a text takes all");
            }
        }
        text.push('\n');
    }
}

/// Writes one line for each attribute of a tool's result.
fn result(tool: &OfferedTool, text: &mut String) {
    for (path, kind) in paths_of(Some(&tool.output["properties"]["result"])) {
        let meaning = &tool.output["properties"]["result"]["properties"][&path]["description"];
        writeln!(text, "  -> {path} {kind}: {}", meaning.as_str().unwrap_or_default())
            .expect("a text takes all");
    }
}

fn digest(value: &Value) -> String {
    let bytes = Sha256::digest(value.to_string());
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    hex[..DIGEST_DIGITS].to_owned()
}

#[test]
fn the_shapes_of_the_tools() {
    let mut text = String::from(
        "What every dialect and format publishes; `cargo bless` prints it.\n\n\
         # Formats\n\nWhat a format writes around the parts of a tool. PLAIN, OPENAI and ANTHROPIC are the forms of its schema.\n\n",
    );
    for (format, strict) in formats() {
        let mut forms: Vec<(String, Vec<&str>)> = Vec::new();
        for (_, tool) in every_tool() {
            let form = wrapping(&tool, format, strict);
            match forms.iter_mut().find(|(known, _)| *known == form) {
                Some((_, names)) => names.push(tool.name),
                None => forms.push((form, vec![tool.name])),
            }
        }
        let how = if strict { "strict" } else { "plain" };
        let most = forms.iter().map(|(_, names)| names.len()).max();
        for (form, names) in forms {
            let only =
                if Some(names.len()) == most { String::new() } else { names.join(" ") + " " };
            writeln!(text, "{} {how} {only}{form}", format.text()).expect("a text takes all");
        }
    }
    text.push_str("\n# Dialects\n\n");
    for dialect in Dialect::ALL {
        writeln!(text, "{}: {}", dialect.text(), dialect.names().join(" "))
            .expect("a text takes all");
    }
    text.push_str("\n# Tools\n\nThe arguments (`*` required, `?` optional, strict forms where they differ), and `->` the result.\n");
    for dialect in Dialect::ALL {
        for tool in own_tools(*dialect) {
            writeln!(text, "\n{} {} ({})", dialect.text(), tool.name, tool.title)
                .expect("a text takes all");
            arguments(&tool, &mut text);
            result(&tool, &mut text);
        }
    }
    text.push_str("\n# Answers\n\nThe schema of every answer, without its result.\n\n");
    writeln!(text, "{}", around_result(&Dialect::Vctx.tools()[0])).expect("a text takes all");
    text.push_str(
        "\n# Digests\n\nThe first digits of the SHA-256 of each tool as it is published: ",
    );
    let names: Vec<&str> = Format::ALL.iter().map(|format| format.text()).collect();
    writeln!(text, "{}, each plain and strict.\n", names.join(", ")).expect("a text takes all");
    for dialect in Dialect::ALL {
        for tool in own_tools(*dialect) {
            let all: Vec<String> = formats()
                .map(|(format, strict)| digest(&format.tool(&tool, Profile::Full, strict)))
                .collect();
            writeln!(text, "{} {} {}", dialect.text(), tool.name, all.join(" "))
                .expect("a text takes all");
        }
    }
    golden("dialects.txt", &text);
}

/// Maximum number of tokens of all tools of a dialect, as a model reads them.
const ALL_TOKENS_MAX: u64 = 1_500;
/// Maximum number of tokens of the tools that the agent loop offers by default.
const CHAT_TOKENS_MAX: u64 = 900;

/// Prints what a model reads of each tool, the tokens of the tool in each format, and the arguments
/// that a model does not see.
#[test]
fn the_tools_that_a_model_reads() {
    let counter = Tiktoken::new(Encoding::O200kBase);
    let tokens = |tools: &[Value]| counter.count(&canonical_json(&json!(tools)));
    let mut text = String::from(
        "What a model reads of the tools, and the arguments that it does not see; `cargo bless` prints it.",
    );
    let compact = |tool: &OfferedTool, format: Format| format.tool(tool, Profile::Compact, false);
    for dialect in Dialect::ALL {
        let sum = |format: Format, chat: bool| {
            let offered = dialect.tools().into_iter().filter(|tool| tool.in_chat || !chat);
            let offered: Vec<Value> = offered.map(|tool| compact(&tool, format)).collect();
            tokens(&offered)
        };
        let (all, chat) = (sum(Format::OpenaiChat, false), sum(Format::OpenaiChat, true));
        assert!(all <= ALL_TOKENS_MAX, "{dialect:?}: all tools take {all} tokens");
        assert!(chat <= CHAT_TOKENS_MAX, "{dialect:?}: the usual tools take {chat} tokens");
        let sums: Vec<String> = Format::ALL
            .iter()
            .map(|format| format!("{} {}", format.text(), sum(*format, false)))
            .collect();
        write!(text, "\n# {}\nAll tools: {} tokens.", dialect.text(), sums.join(", "))
            .expect("a text takes all");
        writeln!(text, " The usual tools of a chat: openai-chat {chat} tokens.")
            .expect("a text takes all");
        for tool in own_tools(*dialect) {
            let counts: Vec<String> = Format::ALL
                .iter()
                .map(|format| tokens(&[compact(&tool, *format)]).to_string())
                .collect();
            write!(text, "{} ({}): {}", tool.name, counts.join(" "), tool.description)
                .expect("a text takes all");
            write!(text, " {}", canonical_json(&tool.compact)).expect("a text takes all");
            let shown = names_of(&tool.compact);
            let hidden: Vec<String> =
                names_of(&tool.input).into_iter().filter(|name| !shown.contains(name)).collect();
            match hidden.is_empty() {
                true => writeln!(text),
                false => writeln!(text, "; not shown: {}", hidden.join(" ")),
            }
            .expect("a text takes all");
        }
    }
    golden("compact.txt", &text);
}

/// Returns the paths of all arguments of a schema, sorted.
fn names_of(schema: &Value) -> BTreeSet<String> {
    fn collect(schema: &Value, path: &str, names: &mut BTreeSet<String>) {
        for choice in choices(schema) {
            for (name, property) in choice["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}{name}");
                names.insert(path.clone());
                collect(property, &format!("{path}."), names);
            }
            if let Some(items) = choice.get("items") {
                collect(items, path, names);
            }
        }
    }
    let mut names = BTreeSet::new();
    collect(schema, "", &mut names);
    names
}

/// A compact schema contains only arguments of the full schema, and all required ones.
#[test]
fn a_model_sees_only_arguments_that_exist() {
    for (dialect, tool) in every_tool() {
        let (full, shown) = (names_of(&tool.input), names_of(&tool.compact));
        assert!(shown.is_subset(&full), "{dialect:?} {}: {shown:?}", tool.name);
        let all = tool.input["required"].clone();
        assert_eq!(tool.compact["required"], all, "{dialect:?} {}", tool.name);
        assert!(!tool.input.to_string().contains("x-model"), "{dialect:?} {}", tool.name);
    }
}

/// Prints each dialect's own tools, which `tools.json` does not contain, in the form that a
/// provider receives.
#[test]
fn the_tools_of_other_dialects() {
    for dialect in [Dialect::MemGpt, Dialect::Anthropic, Dialect::Ues] {
        let own: Vec<Value> = own_tools(dialect)
            .iter()
            .map(|tool| Format::OpenaiChat.tool(tool, Profile::Full, true))
            .collect();
        let text = readable(&json!(own));
        golden(&format!("dialects/{}.json", dialect.text()), &text);
    }
}

fn around_result(tool: &OfferedTool) -> Value {
    let mut answer = tool.output.clone();
    answer["properties"]["result"] = Value::Null;
    answer
}

#[test]
fn a_dialect_publishes_its_own_tools_and_ours_unchanged() {
    let ours = Dialect::Vctx.tools();
    for dialect in Dialect::ALL {
        for (format, strict) in formats() {
            let published = offered(*dialect, format, Profile::Full, strict);
            let mut known: Vec<Value> = own_tools(*dialect)
                .iter()
                .map(|tool| format.tool(tool, Profile::Full, strict))
                .collect();
            known.extend(ours.iter().map(|tool| format.tool(tool, Profile::Full, strict)));
            assert_eq!(published.len(), dialect.names().len());
            for tool in published {
                assert!(known.contains(&tool), "{dialect:?} {format:?}: {tool}");
            }
        }
    }
}

#[test]
fn every_answer_has_the_same_schema_around_its_result() {
    let first = around_result(&Dialect::Vctx.tools()[0]);
    for (dialect, tool) in every_tool() {
        assert_eq!(around_result(&tool), first, "{dialect:?} {}", tool.name);
    }
}

/// Checks that a published schema is JSON Schema 2020-12 with only the keywords of its form, allows
/// no additional properties, and contains no `$ref`.
fn valid(form: Form, schema: &Value, at: &str) {
    let map: &Map<String, Value> = schema.as_object().unwrap_or_else(|| panic!("{at}: {schema}"));
    for keyword in map.keys() {
        assert!(form.knows(keyword), "{at} has {keyword}");
    }
    let kinds: Vec<&str> = match map.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(one) => vec![one.as_str().expect("the name of a type")],
        None => Vec::new(),
    };
    let known = ["object", "array", "string", "integer", "number", "boolean", "null"];
    assert!(kinds.iter().all(|kind| known.contains(kind)), "{at}: {kinds:?}");
    let described = ["anyOf", "oneOf", "const"].iter().any(|name| map.contains_key(*name));
    assert!(!kinds.is_empty() || described, "{at} is anything");
    if form == Form::Anthropic {
        assert!(!kinds.contains(&"null") && map.get("type").is_none_or(Value::is_string), "{at}");
    }
    for name in ["anyOf", "oneOf"] {
        let Some(listed) = map.get(name) else { continue };
        let listed = listed.as_array().expect("choices");
        assert!(listed.len() > 1 || name == "oneOf", "{at}: a choice of one");
        listed.iter().for_each(|choice| valid(form, choice, at));
    }
    if let Some(values) = map.get("enum").and_then(Value::as_array) {
        let mut texts: Vec<String> = values.iter().map(Value::to_string).collect();
        texts.sort();
        texts.dedup();
        assert_eq!((texts.len(), values.is_empty()), (values.len(), false), "{at}");
        assert!(form != Form::Anthropic || !values.contains(&Value::Null), "{at}");
    }
    if kinds.contains(&"array") {
        valid(form, &schema["items"], &format!("{at}[]"));
    }
    if kinds.contains(&"object") && map.contains_key("properties") {
        // The attributes `provenance` and `metadata` may have additional properties, unless a
        // provider forbids them.
        let open = match at.rsplit_once('.') {
            Some((_, "provenance")) if form == Form::Plain => json!(true),
            Some((_, "metadata")) if form == Form::Plain => json!({"type": "string"}),
            _ => json!(false),
        };
        assert_eq!(map.get("additionalProperties"), Some(&open), "{at}");
        let properties = schema["properties"].as_object().expect("properties");
        let required = map.get("required").map_or(&[][..], |r| r.as_array().expect("names"));
        for name in required.iter().map(|name| name.as_str().expect("a name")) {
            assert!(properties.contains_key(name), "{at} requires {name}");
        }
        if form == Form::Openai {
            let names: Vec<&String> = properties.keys().collect();
            assert_eq!(schema["required"], json!(names), "{at}");
        }
        for (name, inner) in properties {
            valid(form, inner, &format!("{at}.{name}"));
        }
    } else if kinds.contains(&"object") {
        assert_eq!(form, Form::Plain, "{at} has no properties");
    }
}

#[test]
fn every_schema_is_a_valid_closed_object_without_key_or_revision() {
    for (_, tool) in every_tool() {
        for form in [Form::Plain, Form::Openai, Form::Anthropic] {
            let Some(schema) = form.schema(&tool) else { continue };
            assert!(schema["properties"].is_object(), "{} in {form:?}: {schema}", tool.name);
            valid(form, &schema, tool.name);
            let text = schema.to_string().to_lowercase();
            for hidden in ["idempotency", "_rev", "if-match", "$ref", "$defs"] {
                assert!(!text.contains(hidden), "{} shows {hidden}: {text}", tool.name);
            }
        }
    }
}

#[test]
fn a_strict_schema_takes_what_the_plain_one_takes() {
    let bare = |kind: &str| {
        let kind = kind.split(" default ").next().unwrap_or(kind);
        let kind = kind.trim_start_matches(['*', '?', ' ']);
        let mut words: Vec<&str> = kind.split(['|', ' ']).collect();
        words.retain(|word| *word != "null");
        words.first().copied().unwrap_or_default().to_owned()
    };
    for (_, tool) in every_tool() {
        let plain = paths_of(Some(&tool.input));
        for form in [Form::Openai, Form::Anthropic] {
            let Some(schema) = form.schema(&tool) else { continue };
            let strict = paths_of(Some(&schema));
            assert_eq!(plain.len(), strict.len(), "{} in {form:?}", tool.name);
            for ((path, kind), (strict_path, strict_kind)) in plain.iter().zip(&strict) {
                assert_eq!(path, strict_path, "{} in {form:?}", tool.name);
                assert_eq!(bare(kind), bare(strict_kind), "{}.{path} in {form:?}", tool.name);
                let optional = kind.starts_with('?') && form == Form::Openai;
                assert!(!optional || strict_kind.contains("null"), "{}.{path}", tool.name);
            }
        }
    }
}
