//! Prints compiled expressions for EXPLAIN, with variable names in place of registers.

use super::expr::{DataCall, Expr, ObjectKey, Quantifier};

/// The text of an expression.
pub fn print(expr: &Expr, variables: &[String], binds: &[std::sync::Arc<str>]) -> String {
    let show = |e: &Expr| print(e, variables, binds);
    let list = |items: &[Expr]| items.iter().map(show).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Const(value) => value.to_json(),
        Expr::Bind(slot) => format!("@{}", binds.get(*slot).map_or("?", |name| name)),
        Expr::Register(register) => variables.get(*register).cloned().unwrap_or_default(),
        Expr::Attribute(base, name) => format!("{}.`{name}`", show(base)),
        Expr::Index(base, index) => format!("{}[{}]", show(base), show(index)),
        Expr::Array(items) => format!("[{}]", list(items)),
        Expr::Object(entries) => {
            let entry = |(key, value): &(ObjectKey, Expr)| match key {
                ObjectKey::Name(name) => {
                    format!("{}: {}", crate::value::Value::from(&**name).to_json(), show(value))
                }
                ObjectKey::Computed(key) => format!("[{}]: {}", show(key), show(value)),
            };
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Expr::Not(value) => format!("!{}", show(value)),
        Expr::Negate(value) => format!("-{}", show(value)),
        Expr::Number(value) => format!("+{}", show(value)),
        Expr::Binary(operator, a, b) => format!("({} {operator} {})", show(a), show(b)),
        Expr::Quantified(quantifier, operator, a, b) => {
            format!("({} {} {operator} {})", show(a), quantifier_text(quantifier, &show), show(b))
        }
        Expr::Ternary(condition, Some(yes), no) => {
            format!("({} ? {} : {})", show(condition), show(yes), show(no))
        }
        Expr::Ternary(condition, None, no) => format!("({} ?: {})", show(condition), show(no)),
        Expr::Call(function, arguments) => format!("{}({})", function.name, list(arguments)),
        Expr::Data(DataCall::Document, arguments) => format!("DOCUMENT({})", list(arguments)),
        Expr::Data(DataCall::Count(number), _) => format!("COLLECTION_COUNT(#{number})"),
        Expr::Data(DataCall::Tokens, arguments) => format!("TOKENS({})", list(arguments)),
        Expr::Data(DataCall::NgramMatch, arguments) => format!("NGRAM_MATCH({})", list(arguments)),
        Expr::Data(DataCall::MinhashMatch, arguments) => {
            format!("MINHASH_MATCH({})", list(arguments))
        }
        Expr::Data(DataCall::CountOf, arguments) => {
            format!("COLLECTION_COUNT({})", list(arguments))
        }
        Expr::Data(DataCall::Collections, _) => "COLLECTIONS()".to_owned(),
        Expr::Data(DataCall::SchemaGet, arguments) => format!("SCHEMA_GET({})", list(arguments)),
        Expr::Data(DataCall::SchemaValidate, arguments) => {
            format!("SCHEMA_VALIDATE({})", list(arguments))
        }
        Expr::Data(DataCall::ShardId, arguments) => format!("SHARD_ID({})", list(arguments)),
        Expr::Data(DataCall::Sleep, arguments) => format!("SLEEP({})", list(arguments)),
        Expr::Data(DataCall::Database, _) => "CURRENT_DATABASE()".to_owned(),
        Expr::Data(DataCall::User, _) => "CURRENT_USER()".to_owned(),
        Expr::Data(DataCall::Near(metric), arguments) => {
            format!("{}({})", metric.function(), list(arguments))
        }
        Expr::Expansion(expansion) => format!("{}[*]", show(&expansion.base)),
        Expr::Question(question) => format!("{}[?]", show(&question.base)),
        Expr::Subquery(number) => format!("SUBQUERY#{number}"),
    }
}

fn quantifier_text(quantifier: &Quantifier, show: &dyn Fn(&Expr) -> String) -> String {
    match quantifier {
        Quantifier::All => "ALL".to_owned(),
        Quantifier::Any => "ANY".to_owned(),
        Quantifier::None => "NONE".to_owned(),
        Quantifier::AtLeast(count) => format!("AT LEAST ({})", show(count)),
        Quantifier::Exactly(count) => show(count),
    }
}
