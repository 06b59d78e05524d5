//! Analyzers of type `aql`: the analyzer's query computes the tokens of one text, which is the bind
//! parameter `@param`. The query reads no stored data.

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::expr::{
    self, DataCall, Expansion, Expr, Host, Memory, ObjectKey, Question, Register, Row, eval,
};
use crate::functions::{Warnings, function, refused};
use crate::limits::{ANALYZER_ROWS_MAX, ANALYZER_STEPS_MAX};
use crate::syntax::{self, Binary, Body, Key, Name, SortDirection, Statement, Unary, parse};
use crate::text::analyzer::Returns;
use crate::text::terms;
use crate::value::{Value, compare};

/// Name of the only bind parameter of an `aql` analyzer's query.
const PARAMETER: &str = "param";
/// Name of the variable for the current element in inline expressions of array operators.
const CURRENT: &str = "CURRENT";
/// Internal name of the variable for the current item of an expansion, such as `list[*].name`. No
/// query text can contain this name.
const ELEMENT: &str = "[*]";

/// The compiled query of an `aql` analyzer.
#[derive(Debug)]
pub(in crate::text) struct Program {
    collapse: bool,
    returns: Returns,
    keep_null: bool,
    root: Vec<Step>,
    subqueries: Vec<Vec<Step>>,
    registers: usize,
}

#[derive(Debug)]
enum Step {
    For(Register, Expr),
    Let(Register, Expr),
    Filter(Expr),
    Sort(Vec<(Expr, bool)>),
    Limit(Option<Expr>, Expr),
    Return { distinct: bool, value: Expr },
}

impl Program {
    /// Compiles the query in the properties of an analyzer. Returns error 10 for an illegal query,
    /// or error 9 for a query that the engine cannot run.
    pub(in crate::text) fn new(properties: &Value) -> Result<Self> {
        let text = properties.text_of("queryString").unwrap_or_default();
        let body = parse(text)?;
        let mut maker = Maker { variables: Vec::new(), subqueries: Vec::new(), registers: 0 };
        let root = maker.body(&body)?;
        Ok(Self {
            collapse: properties.attribute("collapsePositions").is_true(),
            returns: match properties.text_of("returnType") {
                Some("number") => Returns::Number,
                Some("bool") => Returns::Bool,
                _ => Returns::Text,
            },
            keep_null: match properties.attribute("keepNull") {
                Value::Null => true,
                keep => keep.is_true(),
            },
            root,
            subqueries: maker.subqueries,
            registers: maker.registers,
        })
    }

    /// Returns the type of the analyzer's tokens.
    pub(in crate::text) fn returns(&self) -> Returns {
        self.returns
    }

    /// Whether all tokens of the analyzer have the same position.
    pub(in crate::text) fn collapses(&self) -> bool {
        self.collapse
    }

    /// Returns the tokens of a text, or no tokens if the analyzer's query fails, as in ArangoDB.
    pub(in crate::text) fn values(&self, text: &str) -> Vec<Value> {
        let mut run = Run {
            program: self,
            warnings: Warnings::default(),
            memory: Memory::of_an_expression(),
            steps: 0,
            binds: [Value::from(text)],
        };
        let mut row = vec![Value::Null; self.registers];
        let rows = run.steps(&self.root, &mut row).unwrap_or_else(|error| {
            tracing::debug!(%error, "the query of an analyzer failed");
            Vec::new()
        });
        let kept = rows.into_iter().filter(|value| self.keep_null || !value.is_null());
        kept.map(|value| match self.returns {
            Returns::Text => value.to_text().as_ref().into(),
            Returns::Number => Value::finite(value.to_f64()).unwrap_or_default(),
            Returns::Bool => value.is_true().into(),
        })
        .collect()
    }

    /// Returns the analyzer's tokens as texts.
    pub(in crate::text) fn texts(&self, text: &str) -> Vec<String> {
        let of = |value: Value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => terms::token(&value),
        };
        self.values(text).into_iter().map(of).collect()
    }
}

/// One run of an analyzer's query.
struct Run<'p> {
    program: &'p Program,
    warnings: Warnings,
    memory: Memory,
    steps: usize,
    binds: [Value; 1],
}

impl Run<'_> {
    fn steps(&mut self, steps: &[Step], row: &mut Row) -> Result<Vec<Value>> {
        let mut rows = vec![row.clone()];
        for step in steps {
            self.steps += rows.len().max(1);
            if self.steps > ANALYZER_STEPS_MAX || rows.len() > ANALYZER_ROWS_MAX {
                return Err(Error::of(Code::ResourceLimit));
            }
            rows = match step {
                Step::For(out, list) => self.looped(*out, list, rows)?,
                Step::Let(out, value) => {
                    for row in &mut rows {
                        row[*out] = self.value(value, row)?;
                    }
                    rows
                }
                Step::Filter(condition) => {
                    let mut kept = Vec::new();
                    for mut row in rows {
                        if self.value(condition, &mut row)?.is_true() {
                            kept.push(row);
                        }
                    }
                    kept
                }
                Step::Sort(keys) => self.sorted(keys, rows)?,
                Step::Limit(offset, count) => {
                    let mut number = |expr: &Expr| -> Result<usize> {
                        let number = self.value(expr, row)?.to_i64();
                        Ok(usize::try_from(number).unwrap_or(0))
                    };
                    let skip = offset.as_ref().map_or(Ok(0), &mut number)?;
                    let take = number(count)?;
                    rows.into_iter().skip(skip).take(take).collect()
                }
                Step::Return { distinct, value } => {
                    let mut out: Vec<Value> = Vec::new();
                    for mut row in rows {
                        let value = self.value(value, &mut row)?;
                        if !*distinct || out.iter().all(|known| compare(known, &value).is_ne()) {
                            out.push(value);
                        }
                    }
                    return Ok(out);
                }
            };
        }
        Ok(Vec::new())
    }

    fn looped(&mut self, out: Register, list: &Expr, rows: Vec<Row>) -> Result<Vec<Row>> {
        let mut all = Vec::new();
        for mut row in rows {
            let Value::Array(items) = self.value(list, &mut row)? else {
                return Err(Error::of(Code::QueryArrayExpected));
            };
            if all.len() + items.len() > ANALYZER_ROWS_MAX {
                return Err(Error::of(Code::ResourceLimit));
            }
            for item in items.iter() {
                row[out] = item.clone();
                all.push(row.clone());
            }
        }
        Ok(all)
    }

    fn sorted(&mut self, keys: &[(Expr, bool)], rows: Vec<Row>) -> Result<Vec<Row>> {
        let mut keyed = Vec::with_capacity(rows.len());
        for mut row in rows {
            let own = keys.iter().map(|(key, _)| self.value(key, &mut row));
            keyed.push((own.collect::<Result<Vec<_>>>()?, row));
        }
        keyed.sort_by(|(a, _), (b, _)| {
            let order = keys.iter().zip(a.iter().zip(b)).map(|((_, falling), (a, b))| {
                let order = compare(a, b);
                if *falling { order.reverse() } else { order }
            });
            order.into_iter().find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        Ok(keyed.into_iter().map(|(_, row)| row).collect())
    }

    fn value(&mut self, expr: &Expr, row: &mut Row) -> Result<Value> {
        let binds = self.binds.clone();
        eval(expr, row, &binds, self)
    }
}

impl Host for Run<'_> {
    fn warnings(&mut self) -> &mut Warnings {
        &mut self.warnings
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn subquery(&mut self, number: usize, row: &mut Row) -> Result<Value> {
        let program = self.program;
        Ok(Value::array(self.steps(&program.subqueries[number], row)?))
    }

    fn data(&mut self, _: DataCall, _: &[Value]) -> Result<Value> {
        Err(Error::of(Code::Internal))
    }
}

/// Compiles the query text of an analyzer.
struct Maker {
    variables: Vec<(Name, Expr)>,
    subqueries: Vec<Vec<Step>>,
    registers: usize,
}

impl Maker {
    fn body(&mut self, body: &Body) -> Result<Vec<Step>> {
        let seen = self.variables.len();
        let steps = body.statements.iter().map(|statement| self.statement(statement));
        let steps = steps.collect::<Result<Vec<_>>>()?;
        self.variables.truncate(seen);
        Ok(steps)
    }

    fn statement(&mut self, statement: &Statement) -> Result<Step> {
        Ok(match statement {
            Statement::For { variable, source, search: None, .. } => {
                let list = self.expression(source)?;
                Step::For(self.declare(variable), list)
            }
            Statement::Let { name, value } => {
                let value = self.expression(value)?;
                Step::Let(self.declare(name), value)
            }
            Statement::Filter(condition) => Step::Filter(self.expression(condition)?),
            Statement::Sort(keys) => {
                let keys = keys.iter().map(|(key, direction)| {
                    let falling = match direction {
                        SortDirection::Ascending => false,
                        SortDirection::Descending => true,
                        SortDirection::Given(_) => {
                            return Err(Error::unsupported(
                                "a computed sort direction in an analyzer of type aql",
                            ));
                        }
                    };
                    Ok((self.expression(key)?, falling))
                });
                Step::Sort(keys.collect::<Result<_>>()?)
            }
            Statement::Limit { offset, count } => {
                let offset = offset.as_ref().map(|offset| self.expression(offset)).transpose()?;
                Step::Limit(offset, self.expression(count)?)
            }
            Statement::Return { distinct, value } => {
                Step::Return { distinct: *distinct, value: self.expression(value)? }
            }
            Statement::Collect(_) | Statement::Window(_) => {
                return Err(Error::unsupported("COLLECT and WINDOW in the query of an analyzer"));
            }
            _ => return Err(bad("the query of an analyzer may not touch any data".to_owned())),
        })
    }

    fn register(&mut self) -> Register {
        self.registers += 1;
        self.registers - 1
    }

    fn declare(&mut self, name: &Name) -> Register {
        let register = self.register();
        self.variables.push((Name::clone(name), Expr::Register(register)));
        register
    }

    fn expressions(&mut self, items: &[syntax::Expr]) -> Result<Vec<Expr>> {
        items.iter().map(|item| self.expression(item)).collect()
    }

    fn boxed(&mut self, expr: &syntax::Expr) -> Result<Box<Expr>> {
        self.expression(expr).map(Box::new)
    }

    fn expression(&mut self, expr: &syntax::Expr) -> Result<Expr> {
        use syntax::Expr as Ast;
        Ok(match expr {
            Ast::Literal(value) => Expr::Const(value.clone()),
            Ast::Name(name) => self.named(name)?,
            Ast::Bind(name) if **name == *PARAMETER => Expr::Bind(0),
            Ast::Bind(name) | Ast::CollectionBind(name) => {
                return Err(bad(format!("bind parameter '{name}' in the query of an analyzer")));
            }
            Ast::Element => self.named(ELEMENT)?,
            Ast::Attribute(base, Key::Name(name)) => {
                Expr::Attribute(self.boxed(base)?, Arc::clone(name))
            }
            Ast::Index(base, index) => Expr::Index(self.boxed(base)?, self.boxed(index)?),
            Ast::Array(items) => Expr::Array(self.expressions(items)?),
            Ast::Object(entries) => {
                let entry = |(key, value): &(Key, syntax::Expr)| {
                    let key = match key {
                        Key::Name(name) => ObjectKey::Name(Arc::clone(name)),
                        Key::Computed(name) => ObjectKey::Computed(self.expression(name)?),
                        Key::Bind(name) => {
                            return Err(bad(format!("bind parameter '{name}' as a name")));
                        }
                    };
                    Ok((key, self.expression(value)?))
                };
                Expr::Object(entries.iter().map(entry).collect::<Result<_>>()?)
            }
            Ast::Unary(operator, value) => {
                let value = self.boxed(value)?;
                match operator {
                    Unary::Not => Expr::Not(value),
                    Unary::Minus => Expr::Negate(value),
                    Unary::Plus => Expr::Number(value),
                }
            }
            Ast::Binary(Binary::Match | Binary::NotMatch, ..) => {
                return Err(Error::unsupported("=~ in the query of an analyzer"));
            }
            Ast::Binary(operator, a, b) => Expr::Binary(*operator, self.boxed(a)?, self.boxed(b)?),
            Ast::Quantified(quantifier, operator, a, b) => {
                let quantifier = Box::new(self.quantifier(quantifier)?);
                Expr::Quantified(quantifier, *operator, self.boxed(a)?, self.boxed(b)?)
            }
            Ast::Ternary(condition, yes, no) => {
                let condition = self.boxed(condition)?;
                let yes = yes.as_ref().map(|yes| self.boxed(yes)).transpose()?;
                Expr::Ternary(condition, yes, self.boxed(no)?)
            }
            Ast::Call(name, arguments) => self.call(name, arguments)?,
            Ast::Expansion(expansion) => self.expansion(expansion)?,
            Ast::Question(base, quantifier, filter) => {
                let base = self.expression(base)?;
                let quantifier = match quantifier {
                    Some(quantifier) => self.quantifier(quantifier)?,
                    None => expr::Quantifier::Any,
                };
                let seen = self.variables.len();
                let current = self.declare(&Name::from(CURRENT));
                let filter = filter.as_ref().map(|filter| self.expression(filter)).transpose()?;
                self.variables.truncate(seen);
                Expr::Question(Box::new(Question { base, current, quantifier, filter }))
            }
            Ast::Group(inner) => self.expression(inner)?,
            Ast::Subquery(body) => {
                let steps = self.body(body)?;
                self.subqueries.push(steps);
                Expr::Subquery(self.subqueries.len() - 1)
            }
            Ast::Attribute(..) => return Err(bad("a bind parameter as a name".to_owned())),
        })
    }

    fn named(&mut self, name: &str) -> Result<Expr> {
        let known = self.variables.iter().rev().find(|(known, _)| **known == *name);
        known.map(|(_, value)| value.clone()).ok_or_else(|| {
            bad(format!("'{name}' in the query of an analyzer, which may not touch any data"))
        })
    }

    fn call(&mut self, name: &Name, arguments: &[syntax::Expr]) -> Result<Expr> {
        let Some(function) = function(name) else {
            if refused(name) {
                return Err(Error::unsupported(format!("function {name}()")));
            }
            return Err(bad(format!("function '{name}()' in the query of an analyzer")));
        };
        if !(function.min..=function.max).contains(&arguments.len()) {
            return Err(Error::of(Code::QueryFunctionArgumentNumberMismatch));
        }
        Ok(Expr::Call(function, self.expressions(arguments)?))
    }

    fn quantifier(&mut self, quantifier: &syntax::Quantifier) -> Result<expr::Quantifier> {
        Ok(match quantifier {
            syntax::Quantifier::All => expr::Quantifier::All,
            syntax::Quantifier::Any => expr::Quantifier::Any,
            syntax::Quantifier::None => expr::Quantifier::None,
            syntax::Quantifier::AtLeast(n) => expr::Quantifier::AtLeast(self.expression(n)?),
            syntax::Quantifier::Exactly(n) => expr::Quantifier::Exactly(self.expression(n)?),
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
        let seen = self.variables.len();
        let current = self.declare(&Name::from(CURRENT));
        let filter = expansion.filter.as_ref().map(|filter| self.expression(filter)).transpose()?;
        let item = match &expansion.projection {
            Some(projection) => self.expression(projection)?,
            None => Expr::Register(current),
        };
        self.variables.push((Name::from(ELEMENT), item));
        let value = self.expression(&expansion.tail)?;
        self.variables.truncate(seen);
        let flatten = expansion.stars - 1;
        Ok(Expr::Expansion(Box::new(Expansion { base, flatten, current, filter, limit, value })))
    }
}

fn bad(message: String) -> Error {
    Error::new(Code::BadParameter, message)
}
