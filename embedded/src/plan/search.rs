//! `FOR … IN view SEARCH …`: the condition as paths of the document on one side and values on the other.

use std::sync::Arc;

use super::compile::check_arity;
use super::node::{Node, Place, Quantity, ScorerKind, Search, SearchCall, UsedView, ViewScorer};
use super::scope::Builder;
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Register};
use crate::syntax::{self, Binary, Name, Unary};
use crate::value::Value;

/// Functions that only a SEARCH knows.
const SEARCH_ONLY: [&str; 5] = ["ANALYZER", "BOOST", "EXISTS", "MIN_MATCH", "PHRASE"];
/// Parts of an AND, an OR or a MIN_MATCH.
const PARTS_MAX: usize = 10_000;

/// What a SEARCH is compiled with.
struct Context<'a> {
    /// The variable of the FOR.
    document: Register,
    /// Registers that other loops of this level fill.
    loops: &'a [Register],
}

impl Builder<'_> {
    /// A loop over a view.
    pub(super) fn view_loop(
        &mut self,
        variable: &Name,
        name: &str,
        search: Option<&syntax::Expr>,
        options: Option<&syntax::Expr>,
        nodes: &[Node],
    ) -> Result<Node> {
        let view = Arc::clone(&self.database.views[name]);
        if view.kind != "arangosearch" {
            return Err(Error::unsupported(format!("searching the {} view '{name}'", view.kind)));
        }
        let options = self.view_options(options)?;
        let mut collections = Vec::new();
        let linked: Vec<String> =
            self.database.collections.keys().filter(|name| view.holds(name)).cloned().collect();
        for name in &linked {
            let collection = self.collection(name)?;
            self.read(collection)?;
            collections.push(collection);
        }
        let only = chosen(&options, &linked)?;
        let out = self.declare_new(variable)?;
        let loops: Vec<Register> =
            nodes.iter().filter(|node| loops(node)).filter_map(Node::out).collect();
        let context = Context { document: out, loops: &loops };
        let search = match search {
            Some(search) => self.search(search, &context, None)?,
            None => Search::Is(Expr::Const(Value::Bool(true))),
        };
        let wait_for_sync = options.attribute("waitForSync").is_true();
        self.plan.views.push(UsedView {
            view,
            collections,
            only,
            out,
            search,
            scorers: Vec::new(),
            wait_for_sync,
            best: None,
        });
        Ok(Node::EnumerateView { view: self.plan.views.len() - 1, out })
    }

    /// The score of a view's document: a register that the loop over the view fills.
    pub(super) fn scorer(&mut self, name: &str, arguments: &[syntax::Expr]) -> Result<Expr> {
        let kind = if name == "BM25" { ScorerKind::Bm25 } else { ScorerKind::Tfidf };
        let max = if kind == ScorerKind::Bm25 { 3 } else { 2 };
        check_arity(name, arguments.len(), 1, max)?;
        let document = self.expression(&arguments[0])?;
        let view = match document {
            Expr::Register(register) => {
                self.plan.views.iter().position(|view| view.out == register)
            }
            _ => None,
        };
        let Some(view) = view else {
            let text =
                format!("{name}() scores the variable of a FOR over a view and nothing else");
            return Err(Error::new(Code::NotImplemented, text));
        };
        let arguments = self.expressions(&arguments[1..])?;
        if !arguments.iter().all(Expr::is_free) {
            let what = format!("{name}() with arguments that are no constants");
            return Err(Error::unsupported(what));
        }
        let same = |scorer: &ViewScorer| {
            scorer.kind == kind && format!("{:?}", scorer.arguments) == format!("{arguments:?}")
        };
        if let Some(known) = self.plan.views[view].scorers.iter().find(|scorer| same(scorer)) {
            return Ok(Expr::Register(known.out));
        }
        let out = self.register(name)?;
        self.plan.views[view].scorers.push(ViewScorer { kind, arguments, out });
        Ok(Expr::Register(out))
    }

    fn search(
        &mut self,
        expr: &syntax::Expr,
        context: &Context<'_>,
        analyzer: Option<&Expr>,
    ) -> Result<Search> {
        use syntax::Expr as Ast;
        match expr {
            Ast::Group(inner) => self.search(inner, context, analyzer),
            Ast::Unary(Unary::Not, inner) => {
                Ok(Search::Not(Box::new(self.search(inner, context, analyzer)?)))
            }
            Ast::Binary(operator @ (Binary::And | Binary::Or), _, _) => {
                let mut parts = Vec::new();
                self.parts(expr, *operator, context, analyzer, &mut parts)?;
                Ok(if *operator == Binary::And { Search::And(parts) } else { Search::Or(parts) })
            }
            Ast::Binary(operator, a, b) => self.comparison(*operator, a, b, context, analyzer),
            Ast::Quantified(quantifier, operator, a, b) => {
                let list = self.operand(a, context)?;
                let quantity = match &**quantifier {
                    syntax::Quantifier::All => Quantity::All,
                    syntax::Quantifier::Any => Quantity::Any,
                    syntax::Quantifier::None => Quantity::None,
                    syntax::Quantifier::AtLeast(least) => {
                        Quantity::AtLeast(self.operand(least, context)?)
                    }
                    syntax::Quantifier::Exactly(_) => {
                        return Err(Error::unsupported("an exact number of items in SEARCH"));
                    }
                };
                let place = self.place(b, context, analyzer)?;
                Ok(Search::Items { place, quantity, operator: *operator, list })
            }
            Ast::Call(name, arguments) => {
                self.search_call(expr, name, arguments, context, analyzer)
            }
            other => {
                let value = self.expression(other)?;
                if value.registers().contains(&context.document) {
                    return Err(Error::unsupported("an attribute as a whole condition of SEARCH"));
                }
                Ok(Search::Is(checked(value, context)?))
            }
        }
    }

    /// The parts of a chain of ANDs or ORs.
    fn parts(
        &mut self,
        expr: &syntax::Expr,
        operator: Binary,
        context: &Context<'_>,
        analyzer: Option<&Expr>,
        out: &mut Vec<Search>,
    ) -> Result<()> {
        match expr {
            syntax::Expr::Binary(found, a, b) if *found == operator => {
                self.parts(a, operator, context, analyzer, out)?;
                self.parts(b, operator, context, analyzer, out)
            }
            other => {
                if out.len() >= PARTS_MAX {
                    return Err(Error::of(Code::ResourceLimit));
                }
                out.push(self.search(other, context, analyzer)?);
                Ok(())
            }
        }
    }

    fn comparison(
        &mut self,
        operator: Binary,
        a: &syntax::Expr,
        b: &syntax::Expr,
        context: &Context<'_>,
        analyzer: Option<&Expr>,
    ) -> Result<Search> {
        let (left, right) = (self.expression(a)?, self.expression(b)?);
        let is_path = |value: &Expr| value.registers().contains(&context.document);
        let (place, operator, value) = match (is_path(&left), is_path(&right)) {
            (false, false) => {
                let both = Expr::Binary(operator, Box::new(left), Box::new(right));
                return Ok(Search::Is(checked(both, context)?));
            }
            (true, true) => {
                return Err(Error::unsupported("comparing two attributes of a document in SEARCH"));
            }
            (true, false) => (left, operator, right),
            (false, true) => (right, mirrored(operator)?, left),
        };
        let place = place_of(&place, context, analyzer)?;
        let value = checked(value, context)?;
        Ok(match operator {
            Binary::In => Search::In { place, list: value },
            Binary::NotIn => Search::Not(Box::new(Search::In { place, list: value })),
            Binary::NotEqual | Binary::NotLike => {
                let operator =
                    if operator == Binary::NotEqual { Binary::Equal } else { Binary::Like };
                Search::Not(Box::new(Search::Compare { place, operator, value }))
            }
            Binary::Equal
            | Binary::Less
            | Binary::LessEqual
            | Binary::Greater
            | Binary::GreaterEqual
            | Binary::Like => Search::Compare { place, operator, value },
            other => return Err(Error::unsupported(format!("the operator {other:?} in SEARCH"))),
        })
    }

    fn search_call(
        &mut self,
        expr: &syntax::Expr,
        name: &str,
        arguments: &[syntax::Expr],
        context: &Context<'_>,
        analyzer: Option<&Expr>,
    ) -> Result<Search> {
        let arity = |min: usize, max: usize| check_arity(name, arguments.len(), min, max);
        match name {
            "ANALYZER" => {
                arity(2, 2)?;
                let analyzer = self.operand(&arguments[1], context)?;
                self.search(&arguments[0], context, Some(&analyzer))
            }
            "BOOST" => {
                arity(2, 2)?;
                let factor = self.operand(&arguments[1], context)?;
                let search = self.search(&arguments[0], context, analyzer)?;
                Ok(Search::Boost(Box::new(search), factor))
            }
            "MIN_MATCH" => {
                arity(2, PARTS_MAX)?;
                let (least, parts) = arguments.split_last().expect("checked above");
                let least = self.operand(least, context)?;
                let parts = parts.iter().map(|part| self.search(part, context, analyzer));
                Ok(Search::AtLeast(parts.collect::<Result<_>>()?, least))
            }
            "PHRASE" => {
                arity(2, PARTS_MAX)?;
                // The path, then parts with gaps between them, and perhaps an analyzer: which it is, the number tells.
                let (analyzer, last) = match arguments.len() % 2 {
                    0 => (analyzer.cloned(), arguments.len()),
                    _ => {
                        let last = arguments.len() - 1;
                        (Some(self.operand(&arguments[last], context)?), last)
                    }
                };
                let place = self.place(&arguments[0], context, analyzer.as_ref())?;
                let arguments = self.operands(&arguments[1..last], context)?;
                Ok(Search::Call { call: SearchCall::Phrase, place, arguments })
            }
            "EXISTS" => {
                arity(1, 3)?;
                let place = self.place(&arguments[0], context, analyzer)?;
                let arguments = self.operands(&arguments[1..], context)?;
                Ok(Search::Call { call: SearchCall::Exists, place, arguments })
            }
            "STARTS_WITH" | "IN_RANGE" | "LIKE" | "LEVENSHTEIN_MATCH" => {
                let call = match name {
                    "STARTS_WITH" => {
                        arity(2, 3)?;
                        SearchCall::StartsWith
                    }
                    "IN_RANGE" => {
                        arity(5, 5)?;
                        SearchCall::InRange
                    }
                    "LIKE" => {
                        arity(2, 2)?;
                        SearchCall::Like
                    }
                    _ => {
                        arity(3, 6)?;
                        SearchCall::LevenshteinMatch
                    }
                };
                let place = self.place(&arguments[0], context, analyzer)?;
                let arguments = self.operands(&arguments[1..], context)?;
                Ok(Search::Call { call, place, arguments })
            }
            _ => Ok(Search::Is(self.operand(expr, context)?)),
        }
    }

    fn place(
        &mut self,
        expr: &syntax::Expr,
        context: &Context<'_>,
        analyzer: Option<&Expr>,
    ) -> Result<Place> {
        let compiled = self.expression(expr)?;
        place_of(&compiled, context, analyzer)
    }

    fn operand(&mut self, expr: &syntax::Expr, context: &Context<'_>) -> Result<Expr> {
        let compiled = self.expression(expr)?;
        checked(compiled, context)
    }

    fn operands(
        &mut self,
        expressions: &[syntax::Expr],
        context: &Context<'_>,
    ) -> Result<Vec<Expr>> {
        expressions.iter().map(|expr| self.operand(expr, context)).collect()
    }
}

/// 9 for a function that works in a SEARCH only.
pub(super) fn outside_of_search(name: &str) -> Option<Error> {
    SEARCH_ONLY.contains(&name).then(|| {
        Error::new(
            Code::NotImplemented,
            format!("{name}() can be used in the SEARCH of a view only"),
        )
    })
}

/// The collections that `OPTIONS { collections: […] }` leaves; all without it, 10 for one that is not linked.
fn chosen(options: &Value, linked: &[String]) -> Result<Option<Vec<String>>> {
    let given = options.attribute("collections");
    let Some(items) = given.as_array() else {
        if given.is_null() {
            return Ok(None);
        }
        return Err(Error::new(Code::BadParameter, "'collections' of SEARCH must be a list"));
    };
    let name = |item: &Value| {
        let found = item.as_str().filter(|name| linked.iter().any(|known| known == name));
        found.map(str::to_owned).ok_or_else(|| {
            let text = format!("the view has no link to the collection {}", item.to_json());
            Error::new(Code::BadParameter, text)
        })
    };
    items.iter().map(name).collect::<Result<Vec<_>>>().map(Some)
}

fn loops(node: &Node) -> bool {
    matches!(
        node,
        Node::EnumerateCollection { .. }
            | Node::Index { .. }
            | Node::EnumerateList { .. }
            | Node::EnumerateView { .. }
    )
}

/// A value that a SEARCH may compare with: nothing of the document, of another loop of this level or of a subquery.
fn checked(value: Expr, context: &Context<'_>) -> Result<Expr> {
    let registers = value.registers();
    if registers.contains(&context.document) {
        return Err(Error::unsupported("computing with attributes of the document in SEARCH"));
    }
    if registers.iter().any(|register| context.loops.contains(register)) {
        return Err(Error::unsupported("a loop variable of the same level in SEARCH"));
    }
    if !value.subqueries().is_empty() {
        return Err(Error::unsupported("a subquery in SEARCH"));
    }
    Ok(value)
}

/// The path of `variable.a.b`, with the analyzer around it.
fn place_of(expr: &Expr, context: &Context<'_>, analyzer: Option<&Expr>) -> Result<Place> {
    let mut path = Vec::new();
    let mut at = expr;
    loop {
        match at {
            Expr::Attribute(base, name) => {
                path.push(Arc::clone(name));
                at = base;
            }
            Expr::Register(register) if *register == context.document && !path.is_empty() => {
                path.reverse();
                return Ok(Place { path, analyzer: analyzer.cloned() });
            }
            _ => {
                let text = "anything but a path of the document (d.a.b) on this side of a SEARCH";
                return Err(Error::unsupported(text));
            }
        }
    }
}

/// `5 < d.x` is `d.x > 5`.
fn mirrored(operator: Binary) -> Result<Binary> {
    Ok(match operator {
        Binary::Less => Binary::Greater,
        Binary::LessEqual => Binary::GreaterEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterEqual => Binary::LessEqual,
        Binary::Equal | Binary::NotEqual => operator,
        // An item of the attribute equals the value.
        Binary::In => Binary::Equal,
        Binary::NotIn => Binary::NotEqual,
        other => return Err(Error::unsupported(format!("the operator {other:?} in SEARCH"))),
    })
}
