//! Removes nulls at any depth of a call's arguments, because strict tool calls send null for an
//! absent optional property.

use serde_json::{Map, Value};

/// Returns the arguments without nulls for optional properties inside objects and lists. The schema
/// is generated only if there is such a null. Nulls at the first level remain; decoding ignores
/// them.
pub(super) fn without_nulls(
    mut arguments: Map<String, Value>,
    schema: impl FnOnce() -> Value,
) -> Map<String, Value> {
    if arguments.values().any(|value| !value.is_null() && holds_null(value)) {
        drop_nulls(&mut arguments, &schema());
    }
    arguments
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(map) => map.values().any(holds_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn drop_nulls(map: &mut Map<String, Value>, schema: &Value) {
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(properties) = schema["properties"].as_object() else { return };
    map.retain(|name, value| {
        !value.is_null()
            || !properties.contains_key(name)
            || required.iter().any(|needed| needed == name)
    });
    for (name, value) in map {
        if let Some(property) = properties.get(name) {
            below(value, property);
        }
    }
}

fn below(value: &mut Value, schema: &Value) {
    let choices = schema["anyOf"].as_array().map_or(&[][..], Vec::as_slice);
    match value {
        Value::Object(map) => {
            let object = choices.iter().find(|choice| choice["properties"].is_object());
            drop_nulls(map, object.unwrap_or(schema));
        }
        Value::Array(items) => {
            let list = choices.iter().find(|choice| choice["items"].is_object());
            let of = &list.unwrap_or(schema)["items"];
            items.iter_mut().for_each(|item| below(item, of));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::Tool;

    fn left(tool: Tool, arguments: Value) -> Value {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        Value::Object(without_nulls(arguments, || tool.schema()))
    }

    #[test]
    fn a_null_is_left_out_where_that_may_be_however_deep() {
        for (tool, given, expected) in [
            (
                Tool::StoreCore,
                json!({"block_id": "a", "content": "b", "policy": {"mode": null, "role": null}}),
                json!({"block_id": "a", "content": "b", "policy": {}}),
            ),
            (
                Tool::WriteRecall,
                json!({"entries": [{"content": "a", "role": null, "summary": null}]}),
                json!({"entries": [{"content": "a"}]}),
            ),
            (
                Tool::AppendFifo,
                json!({"role": "user", "message": {"content": null, "name": null, "tool_calls": [{"id": "c", "type": null}]}}),
                json!({"role": "user", "message": {"content": null, "tool_calls": [{"id": "c"}]}}),
            ),
            (
                Tool::IngestArchival,
                json!({"doc_id": "d", "provenance": {"page": null, "source": null}, "chunks": ["a", null]}),
                json!({"doc_id": "d", "provenance": {"page": null}, "chunks": ["a", null]}),
            ),
        ] {
            assert_eq!(left(tool, given.clone()), expected, "{given}");
        }
    }
}
