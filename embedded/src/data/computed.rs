//! `computedValues`: attributes that an expression computes from the document.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::error::{Code, Error, Result};
use crate::expr::{DataCall, Expr, Host, Memory, Row, eval};
use crate::functions::Warnings;
use crate::limits::COMPUTED_VALUES_MAX;
use crate::plan::{Node, Plan, plan};
use crate::schema::{Collection, Database};
use crate::syntax::{Body, Mentions, Statement, parse};
use crate::value::{Object, Value};

/// Name of the bind parameter that holds the document; an expression has no other bind parameters.
const DOCUMENT: &str = "doc";
/// The operations that compute values, in the order in which answers list them.
const MOMENTS: [&str; 3] = ["insert", "update", "replace"];
/// Maximum number of cached expression plans. When the cache is full, it is cleared.
const PLANS_KEPT: usize = 512;

static PLANS: LazyLock<Mutex<HashMap<Arc<str>, Arc<Plan>>>> = LazyLock::new(Mutex::default);

fn bad(message: impl std::fmt::Display) -> Error {
    let text =
        format!("Error when validating computedValues: invalid 'computedValues' entry: {message}");
    Error::new(Code::BadParameter, text)
}

/// Returns the definitions of computed values with all defaults, or `Null` if there are none.
/// Returns error 400/10 for an illegal definition.
pub(crate) fn computed_values(given: &Value) -> Result<Value> {
    let list = match given {
        Value::Null => return Ok(Value::Null),
        Value::Array(list) if list.is_empty() => return Ok(Value::Null),
        Value::Array(list) => list,
        _ => {
            let text = "Computed values description is not an array.";
            return Err(Error::new(Code::BadParameter, text));
        }
    };
    if list.len() > COMPUTED_VALUES_MAX {
        return Err(bad(format_args!("more than {COMPUTED_VALUES_MAX} entries")));
    }
    let mut all: Vec<Value> = Vec::with_capacity(list.len());
    for entry in list.iter() {
        let definition = definition(entry)?;
        let name = definition.text_of("name").unwrap_or_default();
        if all.iter().any(|other| other.text_of("name") == Some(name)) {
            return Err(bad(format_args!("duplicate attribute name '{name}'")));
        }
        all.push(definition);
    }
    Ok(all.into())
}

fn definition(entry: &Value) -> Result<Value> {
    let name = entry.text_of("name").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| bad("invalid attribute name"))?;
    if ["_id", "_rev", "_key", "_from", "_to"].contains(&name) {
        let text = format!("'{name}' attribute must not be computed via computation expression");
        return Err(bad(text));
    }
    let Value::Bool(overwrite) = entry.attribute("overwrite") else {
        return Err(bad("'overwrite' must be a boolean"));
    };
    let moments = moments(entry)?;
    let Some(expression) = entry.text_of("expression") else {
        return Err(bad("invalid 'expression' value"));
    };
    planned(expression)?;
    let flag = |name: &str, default: bool| match entry.attribute(name) {
        Value::Bool(flag) => flag,
        _ => default,
    };
    let mut definition = Object::with_capacity(6);
    definition.push_new("name", name.into());
    definition.push_new("expression", expression.into());
    definition.push_new("computeOn", moments.into());
    definition.push_new("overwrite", overwrite.into());
    definition.push_new("failOnWarning", flag("failOnWarning", false).into());
    definition.push_new("keepNull", flag("keepNull", true).into());
    Ok(Value::object(definition))
}

fn moments(entry: &Value) -> Result<Vec<Value>> {
    let all = || MOMENTS.iter().map(|moment| Value::from(*moment));
    let given = entry.attribute("computeOn");
    let list = match &given {
        _ if entry.as_object().is_some_and(|entry| entry.get("computeOn").is_none()) => {
            return Ok(all().collect());
        }
        Value::Array(list) => list,
        _ => return Err(bad("invalid 'computeOn' value")),
    };
    for moment in list.iter() {
        match moment.as_str() {
            None => return Err(bad("invalid 'computeOn' value")),
            Some(word) if !MOMENTS.contains(&word) => {
                return Err(bad(format_args!("invalid 'computeOn' value: '{word}'")));
            }
            Some(_) => {}
        }
    }
    if list.is_empty() {
        return Err(bad("empty 'computeOn' value"));
    }
    Ok(all().filter(|moment| list.contains(moment)).collect())
}

/// Returns the plan of an expression, or error 400/10 for a forbidden expression.
fn planned(text: &str) -> Result<Arc<Plan>> {
    let known = PLANS.lock().unwrap_or_else(PoisonError::into_inner).get(text).map(Arc::clone);
    if let Some(plan) = known {
        return Ok(plan);
    }
    const PLACE: &str = "in computation expression";
    let body = parse(text).map_err(|error| bad(format_args!("{} {PLACE}", error.message)))?;
    check(&body)?;
    let mut binds = Object::new();
    binds.push_new(DOCUMENT, Value::Null);
    let plan = plan(&body, &Database::default(), &binds, &|_| true)
        .map_err(|error| bad(format_args!("{} {PLACE}", error.message)))?;
    check_plan(&plan)?;
    let plan = Arc::new(plan);
    let mut plans = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
    if plans.len() >= PLANS_KEPT {
        plans.clear();
    }
    plans.insert(Arc::from(text), Arc::clone(&plan));
    Ok(plan)
}

/// Refuses a query that is not a single `RETURN`, and any bind parameter except `@doc`.
fn check(body: &Body) -> Result<()> {
    let is_return =
        matches!(body.statements.as_slice(), [Statement::Return { distinct: false, .. }]);
    if !is_return || !body.with.is_empty() {
        let text = "Computation expression needs to start with a RETURN statement in computation expression";
        return Err(bad(text));
    }
    let mut mentions = Mentions::default();
    mentions.read(body);
    match mentions.binds.iter().find(|name| *name != DOCUMENT) {
        Some(name) => Err(bad(format_args!("Invalid bind parameter '{name}' found"))),
        None => Ok(()),
    }
}

/// Refuses subqueries, and functions that read stored data or the database or user of the query.
fn check_plan(plan: &Plan) -> Result<()> {
    let reads = !plan.collections.is_empty() || !plan.views.is_empty();
    if !plan.subqueries.is_empty() || reads {
        return Err(bad("Node type 'subquery' is forbidden in computation expression"));
    }
    for node in &plan.root.nodes {
        let (Node::Calculation { value, .. } | Node::Return { value, .. }) = node else {
            return Err(bad("statements are forbidden in computation expression"));
        };
        let mut forbidden = false;
        value.walk(&mut |part| forbidden |= matches!(part, Expr::Data(..)));
        if forbidden {
            return Err(bad("functions that read data are forbidden in computation expression"));
        }
    }
    Ok(())
}

/// Sets the computed values of a document for the operation `insert`, `update` or `replace`.
pub(super) fn compute(collection: &Collection, document: &mut Object, moment: &str) -> Result<()> {
    let Some(definitions) = collection.computed_values.as_array() else { return Ok(()) };
    let given = Value::object(document.clone());
    for definition in definitions {
        let is_on = |name: &str| matches!(definition.attribute(name), Value::Bool(true));
        let moments = definition.attribute("computeOn");
        let due = moments.as_array().is_some_and(|m| m.iter().any(|m| m.as_str() == Some(moment)));
        let name = definition.text_of("name").unwrap_or_default();
        let overwrite = is_on("overwrite");
        if !due || (!overwrite && document.get(name).is_some()) {
            continue;
        }
        let text = definition.text_of("expression").unwrap_or_default();
        let value = value_of(text, &given, is_on("failOnWarning")).map_err(|mut error| {
            error.message = format!(
                "computed values expression evaluation produced a runtime error for attribute '{name}' of collection '{}': {}",
                collection.name, error.message
            );
            error
        })?;
        document.remove(name);
        if !value.is_null() || is_on("keepNull") {
            document.push_new(name, value);
        }
    }
    Ok(())
}

fn value_of(text: &str, document: &Value, fail: bool) -> Result<Value> {
    let plan = planned(text)?;
    let binds = vec![document.clone(); plan.binds.len()];
    let mut row: Row = vec![Value::Null; plan.variables.len()];
    let warnings = Warnings { fail, ..Warnings::default() };
    let mut host = NoData(warnings, Memory::of_an_expression());
    for node in &plan.root.nodes {
        match node {
            Node::Calculation { value, out } => {
                row[*out] = eval(value, &mut row, &binds, &mut host)?;
            }
            Node::Return { value, .. } => return eval(value, &mut row, &binds, &mut host),
            _ => break,
        }
    }
    Err(Error::of(Code::Internal))
}

/// The host that the evaluator calls for an expression over one document; it refuses access to
/// other data.
struct NoData(Warnings, Memory);

impl Host for NoData {
    fn warnings(&mut self) -> &mut Warnings {
        &mut self.0
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.1
    }

    fn subquery(&mut self, _: usize, _: &mut Row) -> Result<Value> {
        Err(Error::of(Code::Internal))
    }

    fn data(&mut self, _: DataCall, _: &[Value]) -> Result<Value> {
        Err(Error::of(Code::Internal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::CollectionKind;

    fn json(text: &str) -> Value {
        crate::value::parse(text.as_bytes()).expect(text)
    }

    fn collection(definitions: &str) -> Result<Collection> {
        Ok(Collection {
            id: 1,
            computed_values: computed_values(&json(definitions))?,
            ..Collection::new("c", CollectionKind::Document)
        })
    }

    #[test]
    fn definitions_are_taken_or_refused() {
        let table = [
            (r#"[{"name":"a","expression":"RETURN 1","overwrite":true}]"#, 0),
            (
                r#"[{"name":"a","expression":"RETURN @doc.b ? UPPER(@doc.b) : null","overwrite":false}]"#,
                0,
            ),
            (r#"[]"#, 0),
            (r#"{}"#, 10),
            (r#"[{"name":"_key","expression":"RETURN 1","overwrite":true}]"#, 10),
            (r#"[{"name":"a","expression":"RETURN 1"}]"#, 10),
            (r#"[{"name":"a","expression":"RETURN 1","overwrite":true,"computeOn":[]}]"#, 10),
            (
                r#"[{"name":"a","expression":"RETURN 1","overwrite":true,"computeOn":["remove"]}]"#,
                10,
            ),
            (r#"[{"name":"a","expression":"RETURN","overwrite":true}]"#, 10),
            (r#"[{"name":"a","expression":"LET x = 1 RETURN x","overwrite":true}]"#, 10),
            (r#"[{"name":"a","expression":"FOR x IN [1] RETURN x","overwrite":true}]"#, 10),
            (
                r#"[{"name":"a","expression":"RETURN (FOR x IN [1] RETURN x)","overwrite":true}]"#,
                10,
            ),
            (r#"[{"name":"a","expression":"RETURN @other","overwrite":true}]"#, 10),
            (r#"[{"name":"a","expression":"RETURN DOCUMENT('c/1')","overwrite":true}]"#, 10),
            (r#"[{"name":"a","expression":"RETURN NOSUCH(1)","overwrite":true}]"#, 10),
            (
                r#"[{"name":"a","expression":"RETURN 1","overwrite":true},{"name":"a","expression":"RETURN 2","overwrite":true}]"#,
                10,
            ),
        ];
        for (text, expected) in table {
            let num = computed_values(&json(text)).map_or_else(|error| error.code.num(), |_| 0);
            assert_eq!(num, expected, "{text}");
        }
    }

    /// Each row of this table has a definition, an operation, and the document before and after the
    /// operation.
    #[test]
    fn values_are_computed_when_they_are_due() {
        let upper = r#"[{"name":"u","expression":"RETURN UPPER(@doc.t)","overwrite":true}]"#;
        let kept =
            r#"[{"name":"u","expression":"RETURN 7","overwrite":false,"computeOn":["insert"]}]"#;
        let null =
            r#"[{"name":"u","expression":"RETURN @doc.x","overwrite":true,"keepNull":false}]"#;
        let table = [
            (upper, "insert", r#"{"t":"a","u":"old","z":1}"#, r#"{"t":"a","z":1,"u":"A"}"#),
            (kept, "insert", r#"{"t":"a"}"#, r#"{"t":"a","u":7}"#),
            (kept, "insert", r#"{"u":"mine"}"#, r#"{"u":"mine"}"#),
            (kept, "update", r#"{"t":"a"}"#, r#"{"t":"a"}"#),
            (null, "replace", r#"{"t":"a","u":1}"#, r#"{"t":"a"}"#),
        ];
        for (definitions, moment, before, after) in table {
            let collection = collection(definitions).expect(definitions);
            let mut document = json(before).as_object().cloned().expect("an object");
            compute(&collection, &mut document, moment).expect(before);
            assert_eq!(Value::object(document).to_json(), after, "{definitions} {moment} {before}");
        }
    }

    #[test]
    fn a_warning_ends_the_write_when_it_is_to() {
        for (fail, expected) in [(false, 0), (true, 1562)] {
            let text = format!(
                r#"[{{"name":"a","expression":"RETURN 1 / @doc.b","overwrite":true,"failOnWarning":{fail}}}]"#
            );
            let collection = collection(&text).expect("a definition");
            let mut document = json(r#"{"b":0}"#).as_object().cloned().expect("an object");
            let done = compute(&collection, &mut document, "insert");
            assert_eq!(done.map_or_else(|error| error.code.num(), |()| 0), expected);
        }
    }
}
