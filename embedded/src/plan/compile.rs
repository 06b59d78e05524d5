//! Compiles expressions: turns names into registers and functions into pointers, and folds
//! constants.

use super::collect::aggregate_needs_group;
use super::scope::Builder;
use super::search::outside_of_search;
use crate::error::{Code, Error, Result};
use crate::expr::{DataCall, Expansion, Expr, ObjectKey, Quantifier, Question, fold};
pub(super) use crate::functions::arity as check_arity;
use crate::functions::{function, left_out, refused};
use crate::schema::Metric;
use crate::syntax::{self, Key, Name, Source, Unary};
use crate::value::Value;

impl Builder<'_> {
    /// Compiles an expression of the query text.
    pub(super) fn expression(&mut self, expr: &syntax::Expr) -> Result<Expr> {
        use syntax::Expr as Ast;
        let compiled = match expr {
            Ast::Literal(Value::Double(number)) if number.is_infinite() => {
                let code = Code::QueryNumberOutOfRange;
                self.warn(code, code.text().to_owned());
                Expr::Const(Value::Null)
            }
            Ast::Literal(value) => Expr::Const(value.clone()),
            Ast::Name(name) => return self.named(name),
            Ast::Bind(name) if self.binds_as_constants => Expr::Const(self.structural(name)?),
            Ast::Bind(name) => Expr::Bind(self.slot(name)),
            Ast::CollectionBind(name) => {
                let name = self.source_name(&Source::Bind(Name::clone(name)))?;
                return Err(self.as_operand(&name));
            }
            Ast::Element => {
                self.variable(ELEMENT).cloned().ok_or_else(|| Error::of(Code::Internal))?
            }
            Ast::Attribute(base, key) => {
                let base = self.expression(base)?;
                return self.attribute(base, key);
            }
            Ast::Index(base, index) => {
                let base = Box::new(self.expression(base)?);
                match self.expression(index)? {
                    // A constant text in the brackets is an attribute name. If the text begins with
                    // a digit, it can also be an index into a list, as in `list["0"]`.
                    Expr::Const(Value::String(name))
                        if !name.starts_with(|c: char| c.is_ascii_digit()) =>
                    {
                        Expr::Attribute(base, name)
                    }
                    index => Expr::Index(base, Box::new(index)),
                }
            }
            Ast::Array(items) => Expr::Array(self.expressions(items)?),
            Ast::Object(entries) => Expr::Object(self.object(entries)?),
            Ast::Unary(operator, value) => {
                let value = Box::new(self.expression(value)?);
                match operator {
                    Unary::Not => Expr::Not(value),
                    Unary::Minus => Expr::Negate(value),
                    Unary::Plus => Expr::Number(value),
                }
            }
            Ast::Binary(operator, a, b) => Expr::Binary(
                *operator,
                Box::new(self.expression(a)?),
                Box::new(self.expression(b)?),
            ),
            Ast::Quantified(quantifier, operator, a, b) => {
                let a = Box::new(self.expression(a)?);
                let quantifier = Box::new(self.quantifier(quantifier)?);
                Expr::Quantified(quantifier, *operator, a, Box::new(self.expression(b)?))
            }
            Ast::Ternary(condition, yes, no) => {
                let condition = Box::new(self.expression(condition)?);
                let yes = yes.as_ref().map(|yes| self.expression(yes)).transpose()?.map(Box::new);
                Expr::Ternary(condition, yes, Box::new(self.expression(no)?))
            }
            Ast::Call(name, arguments) => self.call(name, arguments)?,
            Ast::Expansion(expansion) => self.expansion(expansion)?,
            Ast::Question(base, quantifier, filter) => {
                let base = self.expression(base)?;
                let quantifier = match quantifier {
                    Some(quantifier) => self.quantifier(quantifier)?,
                    None => Quantifier::Any,
                };
                let current = self.register(CURRENT)?;
                let seen = self.variables.len();
                self.declare_again(CURRENT, Expr::Register(current));
                let filter = filter.as_ref().map(|filter| self.expression(filter)).transpose()?;
                self.variables.truncate(seen);
                Expr::Question(Box::new(Question { base, current, quantifier, filter }))
            }
            Ast::Group(inner) => return self.expression(inner),
            Ast::Subquery(body) => {
                let pipeline = self.body(body)?;
                self.plan.subqueries.push(pipeline);
                Expr::Subquery(self.plan.subqueries.len() - 1)
            }
        };
        fold(compiled, &mut self.plan.warnings)
    }

    /// Compiles several expressions in order.
    pub(super) fn expressions(&mut self, items: &[syntax::Expr]) -> Result<Vec<Expr>> {
        items.iter().map(|item| self.expression(item)).collect()
    }

    fn named(&mut self, name: &Name) -> Result<Expr> {
        match self.variable(name) {
            Some(value) => Ok(value.clone()),
            None => Err(self.as_operand(name)),
        }
    }

    /// Returns the error for a name that is not a variable: 1568 if the name is that of a
    /// collection, otherwise 1203.
    fn as_operand(&mut self, name: &str) -> Error {
        match self.collection(name) {
            Ok(_) => {
                let message = format!("collection '{name}' used as expression operand");
                Error::new(Code::QueryCollectionUsedInExpression, message)
            }
            Err(error) => error,
        }
    }

    fn attribute(&mut self, base: Expr, key: &Key) -> Result<Expr> {
        let names = match key {
            Key::Name(name) => vec![Name::clone(name)],
            Key::Bind(bind) => path_of_bind(bind, &self.structural(bind)?)?,
            Key::Computed(_) => return Err(Error::of(Code::Internal)),
        };
        names.into_iter().try_fold(base, |base, name| {
            fold(Expr::Attribute(Box::new(base), name), &mut self.plan.warnings)
        })
    }

    fn object(&mut self, entries: &[(Key, syntax::Expr)]) -> Result<Vec<(ObjectKey, Expr)>> {
        let mut out = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = match key {
                Key::Name(name) => ObjectKey::Name(Name::clone(name)),
                Key::Bind(bind) => match self.structural(bind)? {
                    Value::String(name) => ObjectKey::Name(name),
                    _ => return Err(bad_bind(bind)),
                },
                Key::Computed(name) => match self.expression(name)? {
                    Expr::Const(value) => ObjectKey::Name(Name::from(&*value.to_text())),
                    name => ObjectKey::Computed(name),
                },
            };
            out.push((key, self.expression(value)?));
        }
        Ok(out)
    }

    fn quantifier(&mut self, quantifier: &syntax::Quantifier) -> Result<Quantifier> {
        Ok(match quantifier {
            syntax::Quantifier::All => Quantifier::All,
            syntax::Quantifier::Any => Quantifier::Any,
            syntax::Quantifier::None => Quantifier::None,
            syntax::Quantifier::AtLeast(count) => Quantifier::AtLeast(self.expression(count)?),
            syntax::Quantifier::Exactly(count) => Quantifier::Exactly(self.expression(count)?),
        })
    }

    fn expansion(&mut self, expansion: &syntax::Expansion) -> Result<Expr> {
        let base = self.expression(&expansion.base)?;
        let limit = match &expansion.limit {
            Some((offset, count)) => {
                let offset = offset.as_ref().map(|offset| self.expression(offset)).transpose()?;
                Some((offset, self.expression(count)?))
            }
            None => None,
        };
        let current = self.register(CURRENT)?;
        let seen = self.variables.len();
        self.declare_again(CURRENT, Expr::Register(current));
        let filter = expansion.filter.as_ref().map(|filter| self.expression(filter)).transpose()?;
        let item = match &expansion.projection {
            Some(projection) => self.expression(projection)?,
            None => Expr::Register(current),
        };
        self.declare_again(ELEMENT, item);
        let value = self.expression(&expansion.tail)?;
        self.variables.truncate(seen);
        let flatten = expansion.stars - 1;
        Ok(Expr::Expansion(Box::new(Expansion { base, flatten, current, filter, limit, value })))
    }

    fn call(&mut self, name: &Name, arguments: &[syntax::Expr]) -> Result<Expr> {
        if left_out(name) {
            return Err(unknown_function(name));
        }
        if let Some(call) = self.data_call(name, arguments)? {
            return Ok(call);
        }
        if name.contains("::") {
            return Err(Error::unsupported(format!("user-defined function '{name}()'")));
        }
        let Some(function) = function(name) else {
            if let Some(error) = outside_of_search(name) {
                return Err(error);
            }
            if refused(name) {
                return Err(Error::unsupported(format!("function {name}()")));
            }
            if aggregate_needs_group(name) {
                return Err(Error::unsupported(format!("function {name}() outside of AGGREGATE")));
            }
            return Err(unknown_function(name));
        };
        check_arity(name, arguments.len(), function.min, function.max)?;
        if &**name == "IS_SAME_COLLECTION" {
            let arguments = arguments.iter().map(|argument| self.collection_or_value(argument));
            return Ok(Expr::Call(function, arguments.collect::<Result<_>>()?));
        }
        Ok(Expr::Call(function, self.expressions(arguments)?))
    }

    /// Compiles an argument that may name a collection. The result is the collection's name if the
    /// argument names a collection directly, and the argument's value otherwise.
    fn collection_or_value(&mut self, argument: &syntax::Expr) -> Result<Expr> {
        match self.collection_argument(argument)? {
            Some(name) => {
                if !matches!(argument, syntax::Expr::Literal(_)) {
                    self.collection(&name)?;
                }
                Ok(Expr::Const(Value::String(name)))
            }
            None => self.expression(argument),
        }
    }

    /// Compiles `CALL("NAME", …)` and `APPLY("NAME", […])` to a direct call of the named function,
    /// if the name is a constant. Returns `None` for any other name.
    fn dynamic_call(&mut self, name: &str, arguments: &[syntax::Expr]) -> Result<Option<Expr>> {
        let Some(syntax::Expr::Literal(Value::String(callee))) = arguments.first() else {
            return Ok(None);
        };
        let callee = Name::from(callee.to_uppercase());
        match (name, &arguments[1..]) {
            ("CALL", inner) => self.call(&callee, inner).map(Some),
            ("APPLY", []) => self.call(&callee, &[]).map(Some),
            ("APPLY", [syntax::Expr::Array(inner)]) => self.call(&callee, inner).map(Some),
            _ => Ok(None),
        }
    }

    /// Compiles a call of a function that reads stored data or properties of the request; returns
    /// `None` for other functions.
    fn data_call(&mut self, name: &str, arguments: &[syntax::Expr]) -> Result<Option<Expr>> {
        let (call, min, max) = match name {
            "CURRENT_DATABASE" => (DataCall::Database, 0, 0),
            "CURRENT_USER" => (DataCall::User, 0, 0),
            "VERSION" => {
                check_arity(name, arguments.len(), 0, 0)?;
                return Ok(Some(Expr::Const(self.database.release.to_string().into())));
            }
            "SLEEP" => (DataCall::Sleep, 1, 1),
            "BM25" | "TFIDF" => return self.scorer(name, arguments).map(Some),
            "OFFSET_INFO" => return self.offset_info(arguments).map(Some),
            "NGRAM_MATCH" => (DataCall::NgramMatch, 3, 4),
            "MINHASH_MATCH" => (DataCall::MinhashMatch, 4, 4),
            "TOKENS" => {
                check_arity(name, arguments.len(), 1, 2)?;
                let arguments = self.expressions(arguments)?;
                return Ok(Some(Expr::Data(DataCall::Tokens, arguments)));
            }
            "DOCUMENT" => (DataCall::Document, 1, 2),
            "CALL" | "APPLY" => return self.dynamic_call(name, arguments),
            "COLLECTIONS" => (DataCall::Collections, 0, 0),
            "SCHEMA_GET" => (DataCall::SchemaGet, 1, 1),
            "SCHEMA_VALIDATE" => (DataCall::SchemaValidate, 2, 2),
            "SHARD_ID" => (DataCall::ShardId, 2, 2),
            "APPROX_NEAR_COSINE" => (DataCall::Near(Metric::Cosine), 2, 3),
            "APPROX_NEAR_L2" => (DataCall::Near(Metric::L2), 2, 3),
            "APPROX_NEAR_INNER_PRODUCT" if self.database.release.inner_product() => {
                (DataCall::Near(Metric::InnerProduct), 2, 3)
            }
            "COLLECTION_COUNT" => {
                check_arity(name, arguments.len(), 1, 1)?;
                let Some(collection) = self.collection_argument(&arguments[0])? else {
                    self.read_anything("COLLECTION_COUNT()")?;
                    let arguments = self.expressions(arguments)?;
                    return Ok(Some(Expr::Data(DataCall::CountOf, arguments)));
                };
                return self.count(&collection).map(Some);
            }
            "LENGTH" | "COUNT" => {
                let is_text = matches!(arguments.first(), Some(syntax::Expr::Literal(_)));
                if arguments.len() != 1 || is_text {
                    return Ok(None);
                }
                let Some(collection) = self.collection_argument(&arguments[0])? else {
                    return Ok(None);
                };
                return self.count(&collection).map(Some);
            }
            _ => return Ok(None),
        };
        check_arity(name, arguments.len(), min, max)?;
        if matches!(call, DataCall::SchemaGet | DataCall::ShardId) {
            let mut compiled = vec![self.collection_or_value(&arguments[0])?];
            compiled.extend(self.expressions(&arguments[1..])?);
            return Ok(Some(Expr::Data(call, compiled)));
        }
        if call != DataCall::Document {
            return Ok(Some(Expr::Data(call, self.expressions(arguments)?)));
        }
        self.read_anything(&format!("{name}()"))?;
        let mut compiled = Vec::new();
        for (at, argument) in arguments.iter().enumerate() {
            let collection = if at == 0 && arguments.len() == 2 {
                self.collection_argument(argument)?
            } else {
                None
            };
            compiled.push(match collection {
                Some(name) => {
                    let collection = self.collection(&name)?;
                    self.read(collection)?;
                    Expr::Const(Value::String(name))
                }
                None => self.expression(argument)?,
            });
        }
        if let [Expr::Const(Value::String(id))] = compiled.as_slice()
            && let Some((name, _)) = id.split_once('/')
            && let Ok(collection) = self.collection(name)
        {
            self.read(collection)?;
        }
        Ok(Some(Expr::Data(call, compiled)))
    }

    /// Returns the collection that an argument names directly, if any.
    fn collection_argument(&mut self, argument: &syntax::Expr) -> Result<Option<Name>> {
        match argument {
            syntax::Expr::Name(name) if self.variable(name).is_none() => {
                Ok(Some(Name::clone(name)))
            }
            syntax::Expr::CollectionBind(bind) => {
                self.source_name(&Source::Bind(Name::clone(bind))).map(Some)
            }
            syntax::Expr::Literal(Value::String(name)) => Ok(Some(Name::clone(name))),
            _ => Ok(None),
        }
    }

    fn count(&mut self, name: &str) -> Result<Expr> {
        let collection = self.collection(name)?;
        self.read(collection)?;
        Ok(Expr::Data(DataCall::Count(collection), Vec::new()))
    }
}

/// Returns error 1540 for an unknown function. Logs a warning if only builds with the feature
/// `conformance` have the function.
pub(super) fn unknown_function(name: &str) -> Error {
    if left_out(name) {
        tracing::warn!(name, "the function needs an engine built with the feature `conformance`");
    }
    let message = format!("usage of unknown function '{name}()'");
    Error::new(Code::QueryFunctionNameUnknown, message)
}

/// Name of the variable for the current element in inline expressions of array operators.
pub(super) const CURRENT: &str = "CURRENT";
/// Internal name of the variable for the current item of an expansion, such as `list[*].name`. No
/// query text can contain this name.
const ELEMENT: &str = "[*]";

fn bad_bind(name: &str) -> Error {
    let message = format!("bind parameter '{name}' has an invalid value or type");
    Error::new(Code::QueryBindParameterType, message)
}

/// Returns the attribute path in a bind parameter's value: one name, or a list of names.
fn path_of_bind(bind: &str, value: &Value) -> Result<Vec<Name>> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let name = |item: &Value| match item {
        Value::String(name) => Ok(Name::clone(name)),
        _ => Err(bad_bind(bind)),
    };
    if items.is_empty() {
        return Err(bad_bind(bind));
    }
    items.iter().map(name).collect()
}
