//! Plans `FOR … IN view SEARCH …`, and compiles the condition to comparisons with values.

use std::sync::Arc;

use super::compile::{check_arity, unknown_function};
use super::condition::{AttributeRef, Quantity, Search, SearchCall};
use super::node::{Node, ScorerKind, UsedView, ViewScorer, ViewSource};
use super::scope::Builder;
use super::search_filter::mirrored;
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Register};
use crate::functions::left_out;
use crate::schema::Database;
use crate::syntax::{self, Binary, Name, Unary};
use crate::text::{Analysis, IndexField, Segment, index_fields};
use crate::value::Value;

/// Functions that exist only in a SEARCH.
const SEARCH_ONLY: [&str; 2] = ["EXISTS", "PHRASE"];
/// Maximum number of operands of an AND, an OR or a MIN_MATCH.
pub(super) const PARTS_MAX: usize = 10_000;

/// The context in which the condition of a SEARCH is compiled.
pub(super) struct Context {
    /// The register of the FOR's variable, which contains the searched document.
    pub(super) document: Register,
    /// Fields of the searched inverted indexes; `None` for a view of the type `arangosearch`.
    fields: Option<Vec<IndexField>>,
    /// Whether the search is refused if it uses a field that the inverted index does not have.
    pub(super) strict: bool,
}

impl Builder<'_> {
    /// Plans a loop over a view: first calculations for the SEARCH, then the loop, then filters for
    /// the conditions that no index can answer.
    pub(super) fn view_loop(
        &mut self,
        variable: &Name,
        name: &str,
        search: Option<&syntax::Expr>,
        options: Option<&syntax::Expr>,
        nodes: &mut Vec<Node>,
    ) -> Result<()> {
        let view = Arc::clone(&self.database.views[name]);
        let options = self.view_options(options)?;
        let mut linked: Vec<String> =
            self.database.collections.keys().filter(|name| view.holds(name)).cloned().collect();
        let (mut stores, mut fields) = (vec![view.id], None);
        if view.kind != "arangosearch" {
            (stores, fields) = (Vec::new(), Some(Vec::new()));
            for (collection, index) in view.indexes() {
                let Some(owner) = self.database.collections.get(&collection) else { continue };
                let Some(index) = owner.indexes.iter().find(|one| one.name == index) else {
                    continue;
                };
                stores.push(index.id);
                let own = index_fields(self.database, &index.definition)?;
                fields.as_mut().expect("set above").extend(own);
                if !linked.contains(&collection) {
                    linked.push(collection);
                }
            }
        }
        let mut collections = Vec::new();
        for name in &linked {
            let collection = self.collection(name)?;
            self.read(collection)?;
            collections.push(collection);
        }
        let only = chosen(&options, &linked, self.database)?;
        let out = self.declare_new(variable)?;
        let context = Context { document: out, fields, strict: false };
        let around = std::mem::take(&mut self.hoisted);
        let (search, filters) = match search {
            Some(search) => self.answered(search, &context)?,
            None => (Search::Is(Expr::Const(Value::Bool(true))), Vec::new()),
        };
        nodes.append(&mut std::mem::replace(&mut self.hoisted, around));
        let source = ViewSource::View(view);
        let used = Loop { source, stores, collections, only, out, search };
        nodes.push(self.segment_loop(used, options.attribute("waitForSync").is_true()));
        nodes.extend(filters.into_iter().map(Node::Filter));
        Ok(())
    }

    fn segment_loop(&mut self, used: Loop, wait_for_sync: bool) -> Node {
        let Loop { source, stores, collections, only, out, search } = used;
        let indexed = matches!(source, ViewSource::Index(_));
        let (scorers, offsets) = (Vec::new(), Vec::new());
        self.plan.views.push(UsedView {
            source,
            stores,
            collections,
            only,
            out,
            search,
            scorers,
            offsets,
            wait_for_sync,
            best: None,
        });
        Node::EnumerateView { view: self.plan.views.len() - 1, out, indexed }
    }

    /// Plans a loop over a collection as a search in the inverted index that the loop's hint names,
    /// if this index can answer all FILTERs after the loop. Otherwise returns `None`, or error 1577
    /// if the hint is forced.
    pub(super) fn inverted_loop(
        &mut self,
        node: &Node,
        filters: &[&syntax::Expr],
        options: &Value,
    ) -> Result<Option<Node>> {
        let Node::EnumerateCollection { collection, out, hint } = node else { return Ok(None) };
        let indexes = &self.plan.collections[*collection].collection.indexes;
        let by_hint = |name: &String| indexes.iter().find(|index| index.name == *name);
        let hinted = hint.names.iter().find_map(by_hint).filter(|index| index.is_inverted());
        let Some(index) = hinted.cloned().filter(|_| !filters.is_empty()) else { return Ok(None) };
        let mut fields = index_fields(self.database, &index.definition)?;
        fields.iter_mut().for_each(|field| field.include_all = false);
        let context = Context { document: *out, fields: Some(fields), strict: true };
        let parts = filters.iter().map(|filter| self.search(filter, &context, None));
        let search = match parts.collect::<Result<Vec<_>>>() {
            Ok(mut parts) if parts.len() == 1 => parts.remove(0),
            Ok(parts) => Search::And(parts),
            Err(error) if error.code != Code::NotImplemented => return Err(error),
            Err(_) if hint.force => return Err(Error::of(Code::QueryForcedIndexHintUnusable)),
            Err(_) => return Ok(None),
        };
        let (stores, collections) = (vec![index.id], vec![*collection]);
        let source = ViewSource::Index(index);
        let used = Loop { source, stores, collections, only: None, out: *out, search };
        Ok(Some(self.segment_loop(used, options.attribute("waitForSync").is_true())))
    }

    /// Compiles `OFFSET_INFO(d, paths)` to a register that the view's loop fills.
    pub(super) fn offset_info(&mut self, arguments: &[syntax::Expr]) -> Result<Expr> {
        check_arity("OFFSET_INFO", arguments.len(), 2, 2)?;
        let view = self.scored_view("OFFSET_INFO", &arguments[0])?;
        let paths = self.expression(&arguments[1])?;
        if !paths.is_free() {
            return Err(Error::unsupported("OFFSET_INFO() with paths that are not constants"));
        }
        let out = self.register("OFFSET_INFO")?;
        self.plan.views[view].offsets.push((paths, out));
        Ok(Expr::Register(out))
    }

    /// Returns the view whose loop variable is a scorer's argument, or error 9 for another
    /// argument.
    fn scored_view(&mut self, name: &str, document: &syntax::Expr) -> Result<usize> {
        let view = match self.expression(document)? {
            Expr::Register(register) => {
                self.plan.views.iter().position(|view| view.out == register)
            }
            _ => None,
        };
        view.filter(|view| matches!(self.plan.views[*view].source, ViewSource::View(_))).ok_or_else(
            || {
                let text =
                    format!("{name}() scores the variable of a FOR over a view and nothing else");
                Error::new(Code::NotImplemented, text)
            },
        )
    }

    /// Compiles a scorer call to a register that the view's loop fills.
    pub(super) fn scorer(&mut self, name: &str, arguments: &[syntax::Expr]) -> Result<Expr> {
        let kind = if name == "BM25" { ScorerKind::Bm25 } else { ScorerKind::Tfidf };
        let max = if kind == ScorerKind::Bm25 { 3 } else { 2 };
        check_arity(name, arguments.len(), 1, max)?;
        let view = self.scored_view(name, &arguments[0])?;
        let arguments = self.expressions(&arguments[1..])?;
        if !arguments.iter().all(Expr::is_free) {
            let what = format!("{name}() with arguments that are not constants");
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

    pub(super) fn search(
        &mut self,
        expr: &syntax::Expr,
        context: &Context,
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
            Ast::Binary(operator, call, other) if is_distance(call) => {
                self.distance(expr, *operator, call, other, context, analyzer)
            }
            Ast::Binary(operator, other, call) if is_distance(call) => {
                self.distance(expr, mirrored(*operator)?, call, other, context, analyzer)
            }
            Ast::Binary(..) => self.comparison_of(expr, context, analyzer),
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
                    return Err(Error::unsupported("an attribute without a comparison in SEARCH"));
                }
                Ok(Search::Is(self.checked(value, context)?))
            }
        }
    }

    /// Compiles all operands of a chain of ANDs or ORs.
    fn parts(
        &mut self,
        expr: &syntax::Expr,
        operator: Binary,
        context: &Context,
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

    pub(super) fn comparison_of(
        &mut self,
        expr: &syntax::Expr,
        context: &Context,
        analyzer: Option<&Expr>,
    ) -> Result<Search> {
        let syntax::Expr::Binary(operator, a, b) = expr else {
            return Err(Error::of(Code::Internal));
        };
        self.comparison(*operator, a, b, context, analyzer)
    }

    fn comparison(
        &mut self,
        operator: Binary,
        a: &syntax::Expr,
        b: &syntax::Expr,
        context: &Context,
        analyzer: Option<&Expr>,
    ) -> Result<Search> {
        let b = match (operator, b) {
            (Binary::In, syntax::Expr::Expansion(expansion)) => {
                items_of(expansion, context).unwrap_or(b)
            }
            _ => b,
        };
        let (left, right) = (self.expression(a)?, self.expression(b)?);
        let is_path = |value: &Expr| value.registers().contains(&context.document);
        let (place, operator, value) = match (is_path(&left), is_path(&right)) {
            (false, false) => {
                let both = Expr::Binary(operator, Box::new(left), Box::new(right));
                return Ok(Search::Is(self.checked(both, context)?));
            }
            (true, true) => {
                return Err(Error::unsupported("comparing two attributes of a document in SEARCH"));
            }
            (true, false) => (left, operator, right),
            (false, true) => (right, mirrored(operator)?, left),
        };
        let place = self.place_of(&place, context, analyzer)?;
        let value = self.checked(value, context)?;
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
        context: &Context,
        analyzer: Option<&Expr>,
    ) -> Result<Search> {
        let arity = |min: usize, max: usize| check_arity(name, arguments.len(), min, max);
        match name {
            _ if left_out(name) => Err(unknown_function(name)),
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
                // `PHRASE` takes a path, texts with gaps between them, and optionally an analyzer.
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
            "GEO_IN_RANGE" | "GEO_CONTAINS" | "GEO_INTERSECTS" => {
                let (min, max) = if name == "GEO_IN_RANGE" { (4, 7) } else { (2, 2) };
                arity(min, max)?;
                match self.geo(&Name::from(name), arguments, None, context, analyzer)? {
                    Some(search) => Ok(search),
                    None => Ok(Search::Is(self.operand(expr, context)?)),
                }
            }
            "NGRAM_MATCH" | "MINHASH_MATCH"
                if self.is_of(&arguments[..1.min(arguments.len())], context)? =>
            {
                arity(2, 4)?;
                let call = if name == "NGRAM_MATCH" {
                    SearchCall::NgramMatch
                } else {
                    SearchCall::MinhashMatch
                };
                // An argument after the target is the analyzer's name if it is a text, or the share
                // of n-grams to match if it is a number.
                let (own, rest) = match arguments {
                    [_, _, _, analyzer] => (Some(analyzer), &arguments[1..3]),
                    [
                        _,
                        _,
                        syntax::Expr::Literal(Value::Int(_) | Value::UInt(_) | Value::Double(_)),
                    ] => (None, &arguments[1..]),
                    [_, _, analyzer] => (Some(analyzer), &arguments[1..2]),
                    _ => (None, &arguments[1..]),
                };
                let own = own.map(|own| self.operand(own, context)).transpose()?;
                let place = self.place(&arguments[0], context, own.as_ref().or(analyzer))?;
                let arguments = self.operands(rest, context)?;
                Ok(Search::Call { call, place, arguments })
            }
            "STARTS_WITH" | "IN_RANGE" | "LIKE" | "LEVENSHTEIN_MATCH"
                if self.is_of(&arguments[..1.min(arguments.len())], context)? =>
            {
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

    /// Whether any expression in a list reads the searched document.
    pub(super) fn is_of(
        &mut self,
        expressions: &[syntax::Expr],
        context: &Context,
    ) -> Result<bool> {
        for expr in expressions {
            if self.expression(expr)?.registers().contains(&context.document) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn place(
        &mut self,
        expr: &syntax::Expr,
        context: &Context,
        analyzer: Option<&Expr>,
    ) -> Result<AttributeRef> {
        let compiled = self.expression(expr)?;
        self.place_of(&compiled, context, analyzer)
    }

    pub(super) fn operand(&mut self, expr: &syntax::Expr, context: &Context) -> Result<Expr> {
        let compiled = self.expression(expr)?;
        self.checked(compiled, context)
    }

    fn operands(&mut self, expressions: &[syntax::Expr], context: &Context) -> Result<Vec<Expr>> {
        expressions.iter().map(|expr| self.operand(expr, context)).collect()
    }
}

/// Returns the attribute before `[*]` in `x IN d.tags[*]`, if the index has the field `tags[*]`.
fn items_of<'a>(expansion: &'a syntax::Expansion, context: &Context) -> Option<&'a syntax::Expr> {
    let bare = expansion.stars == 1
        && expansion.filter.is_none()
        && expansion.limit.is_none()
        && expansion.projection.is_none()
        && expansion.tail == syntax::Expr::Element;
    let mut names = Vec::new();
    let mut at = &expansion.base;
    while let syntax::Expr::Attribute(base, syntax::Key::Name(name)) = at {
        names.insert(0, &**name);
        at = base;
    }
    let held = |field: &IndexField| field.expanded && field.path.iter().eq(names.iter());
    let fields = context.fields.as_ref().filter(|_| bare && context.strict)?;
    fields.iter().any(held).then_some(&expansion.base)
}

fn is_distance(expr: &syntax::Expr) -> bool {
    matches!(expr, syntax::Expr::Call(name, _) if **name == *"GEO_DISTANCE")
}

/// The settings of a loop over a view's segments.
struct Loop {
    source: ViewSource,
    stores: Vec<u64>,
    collections: Vec<usize>,
    only: Option<Vec<String>>,
    out: Register,
    search: Search,
}

impl Builder<'_> {
    /// Returns the attribute path of an expression like `variable.a.b[0]`, with the current
    /// analyzer.
    fn place_of(
        &self,
        expr: &Expr,
        context: &Context,
        analyzer: Option<&Expr>,
    ) -> Result<AttributeRef> {
        let mut path = Vec::new();
        let mut at = expr;
        loop {
            match at {
                Expr::Attribute(base, name) => {
                    path.push(Segment::Name(Arc::clone(name)));
                    at = base;
                }
                Expr::Index(base, index) => {
                    let Expr::Const(Value::Int(place @ 0..)) = **index else {
                        return Err(Error::unsupported("a computed list index in SEARCH"));
                    };
                    path.push(Segment::Item(place as usize));
                    at = base;
                }
                Expr::Register(register) if *register == context.document && !path.is_empty() => {
                    path.reverse();
                    break;
                }
                _ => {
                    let text =
                        "an operand of SEARCH that is not an attribute path of a document (d.a.b)";
                    return Err(Error::unsupported(text));
                }
            }
        }
        let field = context.fields.as_ref().map(|fields| field_of(fields, &path));
        if context.strict && field.as_ref().is_some_and(Option::is_none) {
            return Err(Error::unsupported("a field that the inverted index lacks"));
        }
        Ok(AttributeRef { path, analyzer: analyzer.cloned(), field })
    }
}

/// Returns the analyzer of a path's field. If the path has no field, returns the analyzer of the
/// nearest parent field that includes all subattributes.
fn field_of(fields: &[IndexField], path: &[Segment]) -> Option<Arc<Analysis>> {
    let names: Vec<&str> = path
        .iter()
        .filter_map(|segment| match segment {
            Segment::Name(name) => Some(&**name),
            Segment::Item(_) => None,
        })
        .collect();
    let holds = |field: &&IndexField| {
        let begins = field.path.len() <= names.len()
            && field.path.iter().zip(&names).all(|(own, name)| own == name);
        begins && (field.include_all || field.path.len() == names.len())
    };
    let nearest = fields.iter().filter(holds).max_by_key(|field| field.path.len());
    nearest.map(|field| field.analysis.clone())
}

/// Returns error 9 for a function that only works in a SEARCH, or `None` for any other function.
pub(super) fn outside_of_search(name: &str) -> Option<Error> {
    SEARCH_ONLY.contains(&name).then(|| {
        let text = format!("{name}() can be used in the SEARCH of a view only");
        Error::new(Code::NotImplemented, text)
    })
}

/// Returns the collections that `OPTIONS { collections […] }` lists by name or id (`None`: all of
/// the view's collections), or error 10 for a collection that is not in the view.
fn chosen(options: &Value, linked: &[String], database: &Database) -> Result<Option<Vec<String>>> {
    let given = options.attribute("collections");
    let Some(items) = given.as_array() else {
        if given.is_null() {
            return Ok(None);
        }
        return Err(Error::new(Code::BadParameter, "'collections' of SEARCH must be a list"));
    };
    let name = |item: &Value| {
        let same = |known: &&String| match item {
            Value::String(text) => {
                let number = || database.collections.get(*known).map(|of| of.id.to_string());
                **known == **text || number().is_some_and(|number| *number == **text)
            }
            number => database
                .collections
                .get(*known)
                .is_some_and(|of| number.as_f64() == Some(of.id as f64)),
        };
        linked.iter().find(same).cloned().ok_or_else(|| {
            let text = format!("the view has no link to the collection {}", item.to_json());
            Error::new(Code::BadParameter, text)
        })
    };
    items.iter().map(name).collect::<Result<Vec<_>>>().map(Some)
}
