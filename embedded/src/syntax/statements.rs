//! Parses statements such as `FOR`, `FILTER` and `RETURN`.

use super::ast::{
    Body, Collect, Direction, Expr, Key, Name, PathSearch, Pattern, SortDirection, Source,
    Statement, Traversal, Upsert, Window,
};
use super::parser::Parser;
use super::token::{Kind, Word};
use crate::error::{Code, Error, Result};
use crate::value::Value;

/// The internal name of a destructuring loop's variable, which no query text can contain.
const ITEM: &str = "[]";

impl Parser<'_> {
    /// Parses a query, including a `WITH` at its beginning.
    pub(super) fn query(&mut self) -> Result<Body> {
        let mut with = Vec::new();
        if self.word(Word::With) {
            loop {
                with.push(self.source_or_value_bind()?);
                self.sign(",");
                if self.starts_statement() {
                    break;
                }
            }
        }
        let mut body = self.body()?;
        body.with = with;
        Ok(body)
    }

    /// Whether a statement, and therefore a query or subquery, begins at the next token.
    pub(super) fn starts_statement(&self) -> bool {
        matches!(
            self.peek(),
            Kind::Word(
                Word::For
                    | Word::Let
                    | Word::Filter
                    | Word::Return
                    | Word::Collect
                    | Word::Sort
                    | Word::Limit
                    | Word::Window
                    | Word::Insert
                    | Word::Update
                    | Word::Replace
                    | Word::Remove
                    | Word::Upsert
            )
        )
    }

    /// Parses the statements of a query or subquery, up to its RETURN or its end.
    pub(super) fn body(&mut self) -> Result<Body> {
        let mut statements = Vec::new();
        let mut height = 0;
        let mut may_end = false;
        while self.starts_statement() {
            let last = self.statement(&mut statements)?;
            height = height.max(self.height);
            may_end = matches!(
                statements.last(),
                Some(
                    Statement::Insert { .. }
                        | Statement::Change { .. }
                        | Statement::Remove { .. }
                        | Statement::Upsert(_)
                )
            );
            if last {
                may_end = true;
                break;
            }
        }
        if !may_end {
            return self.unexpected("");
        }
        self.grow(height)?;
        Ok(Body { with: Vec::new(), statements })
    }

    /// Parses one statement. Returns whether the statement is a RETURN.
    fn statement(&mut self, out: &mut Vec<Statement>) -> Result<bool> {
        let Kind::Word(word) = *self.peek() else { return self.unexpected("") };
        self.advance();
        let statement = match word {
            Word::For => return self.for_loop(out).map(|()| false),
            Word::Let => return self.lets(out).map(|()| false),
            Word::Filter => Statement::Filter(self.expression()?),
            Word::Return => {
                let distinct = self.word(Word::Distinct);
                let loops =
                    |s: &Statement| matches!(s, Statement::For { .. } | Statement::Traversal(_));
                if distinct && !out.iter().any(loops) {
                    return self.wrong("cannot use DISTINCT modifier on top-level query element");
                }
                out.push(Statement::Return { distinct, value: self.expression()? });
                return Ok(true);
            }
            Word::Collect => self.collect()?,
            Word::Sort => self.sort()?,
            Word::Limit => {
                let first = self.expression()?;
                if self.sign(",") {
                    Statement::Limit { offset: Some(first), count: self.expression()? }
                } else {
                    Statement::Limit { offset: None, count: first }
                }
            }
            Word::Window => self.window()?,
            Word::Insert => {
                let document = self.expression_before_in()?;
                let into = self.into()?;
                Statement::Insert { document, into, options: self.options()? }
            }
            Word::Update | Word::Replace => {
                let key = self.expression_before_in()?;
                let with =
                    if self.word(Word::With) { Some(self.expression_before_in()?) } else { None };
                let into = self.into()?;
                Statement::Change {
                    replace: word == Word::Replace,
                    key,
                    with,
                    into,
                    options: self.options()?,
                }
            }
            Word::Remove => {
                let key = self.expression_before_in()?;
                let from = self.into()?;
                Statement::Remove { key, from, options: self.options()? }
            }
            Word::Upsert => self.upsert()?,
            _ => return self.unexpected(""),
        };
        out.push(statement);
        Ok(false)
    }

    fn into(&mut self) -> Result<Source> {
        if self.word(Word::In) || self.word(Word::Into) {
            if let Kind::Text(name) = self.peek() {
                let name = name.clone();
                self.advance();
                return Ok(Source::Name(name));
            }
            return self.source();
        }
        self.unexpected("expecting IN or INTO")
    }

    fn options(&mut self) -> Result<Option<Expr>> {
        if !self.is_soft(0, "OPTIONS") {
            if let Kind::Name(word) = self.peek()
                && *self.peek_at(1) == Kind::Sign("{")
            {
                return self.wrong(&format!("unexpected qualifier '{word}', expecting 'OPTIONS'"));
            }
            return Ok(None);
        }
        self.advance();
        if *self.peek() != Kind::Sign("{") {
            self.expression()?;
            return self.wrong("'OPTIONS' have to be an object");
        }
        let height = self.height;
        let options = self.object()?;
        self.height = self.height.max(height);
        Ok(Some(options))
    }

    fn lets(&mut self, out: &mut Vec<Statement>) -> Result<()> {
        let mut height = 0;
        loop {
            let pattern = self.pattern(0)?;
            self.expect_sign("=")?;
            let value = self.expression()?;
            out.push(match pattern {
                Pattern::Name(name) => Statement::Let { name, value },
                pattern => Statement::Destructure { pattern, value },
            });
            height = height.max(self.height);
            if !self.sign(",") {
                self.height = height;
                return Ok(());
            }
        }
    }

    /// Parses a variable name, or the left side of a destructuring assignment.
    fn pattern(&mut self, depth: usize) -> Result<Pattern> {
        if depth > super::parser::EXPRESSION_DEPTH_MAX {
            return Err(Error::of(Code::QueryTooMuchNesting));
        }
        if self.sign("[") {
            let mut items = Vec::new();
            while !self.sign("]") {
                let hole = matches!(self.peek(), Kind::Sign(","));
                items.push(if hole { Pattern::Hole } else { self.pattern(depth + 1)? });
                if !self.sign(",") {
                    self.expect_sign("]")?;
                    break;
                }
            }
            return Ok(Pattern::Array(items));
        }
        if self.sign("{") {
            let mut items = Vec::new();
            while !self.sign("}") {
                let hole = matches!(self.peek(), Kind::Sign(","));
                items.push(if hole { None } else { Some(self.attribute_pattern(depth)?) });
                if !self.sign(",") {
                    self.expect_sign("}")?;
                    break;
                }
            }
            return Ok(Pattern::Object(items));
        }
        Ok(Pattern::Name(self.name()?))
    }

    fn attribute_pattern(&mut self, depth: usize) -> Result<(Name, Pattern)> {
        let name = match self.peek() {
            Kind::Text(name) if *self.peek_at(1) == Kind::Sign(":") => {
                let name = name.clone();
                self.advance();
                name
            }
            _ => self.name()?,
        };
        let pattern =
            if self.sign(":") { self.pattern(depth + 1)? } else { Pattern::Name(name.clone()) };
        Ok((name, pattern))
    }

    fn direction(&mut self) -> Option<Direction> {
        let direction = match self.peek() {
            Kind::Word(Word::Outbound) => Direction::Outbound,
            Kind::Word(Word::Inbound) => Direction::Inbound,
            Kind::Word(Word::Any) => Direction::Any,
            _ => return None,
        };
        self.advance();
        Some(direction)
    }

    fn path_search(&mut self) -> PathSearch {
        let search = match self.peek() {
            Kind::Word(Word::ShortestPath) => PathSearch::Shortest,
            Kind::Word(Word::AllShortestPaths) => PathSearch::AllShortest,
            Kind::Word(Word::KShortestPaths) => PathSearch::KShortest,
            Kind::Word(Word::KPaths) => PathSearch::KPaths,
            _ => return PathSearch::Traversal,
        };
        self.advance();
        search
    }

    fn for_loop(&mut self, out: &mut Vec<Statement>) -> Result<()> {
        let apart = match self.peek() {
            Kind::Sign("[" | "{") => Some(self.pattern(0)?),
            _ => None,
        };
        let mut variables = Vec::new();
        if apart.is_some() {
            variables.push(Name::from(ITEM));
        } else {
            variables.push(self.name()?);
            while self.sign(",") {
                variables.push(self.name()?);
            }
        }
        self.expect_word(Word::In)?;
        let along =
            |p: &Self| matches!(p.peek(), Kind::Word(Word::Outbound | Word::Inbound | Word::Any));
        let mut source = None;
        if !along(self) {
            let read = self.expression()?;
            if !along(self) {
                return self.plain_for(variables, read, apart, out);
            }
            source = Some(read);
        }
        out.push(self.traversal(variables, source, apart.is_some())?);
        Ok(())
    }

    fn plain_for(
        &mut self,
        mut variables: Vec<Name>,
        source: Expr,
        apart: Option<Pattern>,
        out: &mut Vec<Statement>,
    ) -> Result<()> {
        if variables.len() > 1 {
            return self
                .wrong("Collections and views FOR loops only allow a single return variable");
        }
        let Some(variable) = variables.pop() else { return self.unexpected("") };
        let search = if self.soft("SEARCH") { Some(self.expression()?) } else { None };
        if search.is_some() && apart.is_some() {
            return self.wrong("SEARCH condition is incompatible with destructuring");
        }
        if let Kind::Name(word) = self.peek()
            && !self.is_soft(0, "OPTIONS")
            && *self.peek_at(1) == Kind::Sign("{")
        {
            let what = format!("unexpected qualifier '{word}', expecting 'SEARCH' or 'OPTIONS'");
            return self.wrong(&what);
        }
        let options = self.options()?;
        out.push(Statement::For { variable, source, search, options });
        if let Some(pattern) = apart {
            out.push(Statement::Destructure { pattern, value: Expr::Name(Name::from(ITEM)) });
        }
        Ok(())
    }

    fn traversal(
        &mut self,
        variables: Vec<Name>,
        depth: Option<Expr>,
        apart: bool,
    ) -> Result<Statement> {
        let Some(direction) = self.direction() else { return self.unexpected("") };
        let search = self.path_search();
        let (most, what) = match search {
            PathSearch::Traversal => (3, "Traversals only have one, two or three return variables"),
            PathSearch::Shortest => (2, "SHORTEST_PATH must have one or two return variables"),
            PathSearch::KShortest => (1, "K_SHORTEST_PATHS only has one return variable"),
            PathSearch::AllShortest => (1, "ALL_SHORTEST_PATHS only has one return variable"),
            PathSearch::KPaths => (1, "K_PATHS only has one return variable"),
        };
        if !matches!(search, PathSearch::Traversal | PathSearch::KPaths) && depth.is_some() {
            return self.unexpected("");
        }
        let start = self.expression()?;
        let target = if search != PathSearch::Traversal {
            if !self.soft("TO") {
                if let Kind::Name(word) = self.peek() {
                    return self.wrong(&format!("unexpected qualifier '{word}', expecting 'TO'"));
                }
                return self.unexpected("expecting identifier");
            }
            Some(self.expression()?)
        } else {
            None
        };
        let mut edges = Vec::new();
        let graph = if self.word(Word::Graph) {
            Some(self.graph_name()?)
        } else {
            loop {
                let own = self.direction();
                edges.push((own, self.source_or_value_bind()?));
                if !self.sign(",") {
                    break None;
                }
            }
        };
        let prunes = search == PathSearch::Traversal && self.soft("PRUNE");
        let prune = if prunes { Some(self.prune()?) } else { None };
        let options = self.options()?;
        if apart {
            let what = if search == PathSearch::Traversal { "Traversal" } else { search.word() };
            return self.wrong(&format!("{what} does not support array/object destructuring"));
        }
        if variables.len() > most {
            return self.wrong(what);
        }
        Ok(Statement::Traversal(Box::new(Traversal {
            variables,
            search,
            depth,
            direction,
            start,
            target,
            graph,
            edges,
            prune,
            options,
        })))
    }

    fn graph_name(&mut self) -> Result<Expr> {
        let name = match self.peek() {
            Kind::Text(name) => Expr::Literal(Value::String(name.clone())),
            Kind::Name(name) | Kind::QuotedName(name) => Expr::Literal(Value::String(name.clone())),
            Kind::Bind(name) => Expr::Bind(name.clone()),
            Kind::CollectionBind(name) => Expr::Bind(Name::from(format!("@{name}"))),
            _ => return self.unexpected(""),
        };
        self.advance();
        Ok(name)
    }

    fn prune(&mut self) -> Result<(Option<Name>, Expr)> {
        let named = matches!(self.peek(), Kind::Name(_) | Kind::QuotedName(_))
            && *self.peek_at(1) == Kind::Sign("=");
        let name = if named {
            let name = self.name()?;
            self.advance();
            Some(name)
        } else {
            None
        };
        Ok((name, self.expression()?))
    }

    fn sort(&mut self) -> Result<Statement> {
        let mut keys = Vec::new();
        let mut height = 0;
        loop {
            let key = self.expression()?;
            height = height.max(self.height);
            let direction = self.sort_direction()?;
            keys.push((key, direction));
            if !self.sign(",") {
                self.height = height;
                return Ok(Statement::Sort(keys));
            }
        }
    }

    fn sort_direction(&mut self) -> Result<SortDirection> {
        if self.word(Word::Desc) {
            return Ok(SortDirection::Descending);
        }
        if self.word(Word::Asc) {
            return Ok(SortDirection::Ascending);
        }
        let given = matches!(
            self.peek(),
            Kind::Text(_)
                | Kind::Number(_)
                | Kind::Bind(_)
                | Kind::Word(Word::Null | Word::True | Word::False)
        );
        if !given {
            return Ok(SortDirection::Ascending);
        }
        let height = self.height;
        let value = self.primary()?;
        self.height = self.height.max(height);
        Ok(SortDirection::Given(Box::new(value)))
    }

    /// Parses one or more assignments `name = expression`, separated by commas.
    fn assignments(&mut self) -> Result<Vec<(Name, Expr)>> {
        let mut out = Vec::new();
        let mut height = 0;
        loop {
            let name = self.name()?;
            self.expect_sign("=")?;
            out.push((name, self.expression()?));
            height = height.max(self.height);
            if !self.sign(",") {
                self.height = height;
                return Ok(out);
            }
        }
    }

    /// Parses assignments whose expressions must be function calls.
    fn aggregates(&mut self) -> Result<Vec<(Name, Expr)>> {
        let calls = self.assignments()?;
        if calls.iter().all(|(_, value)| matches!(value, Expr::Call(..))) {
            return Ok(calls);
        }
        self.unexpected("")
    }

    fn collect(&mut self) -> Result<Statement> {
        self.height = 1;
        let mut collect = Collect::default();
        let named = matches!(self.peek(), Kind::Name(_) | Kind::QuotedName(_))
            && *self.peek_at(1) == Kind::Sign("=");
        if named {
            collect.keys = self.assignments()?;
        }
        if self.word(Word::Aggregate) {
            collect.aggregates = self.aggregates()?;
        }
        if self.word(Word::With) {
            if !self.soft("COUNT") {
                return self.unexpected("expecting COUNT");
            }
            self.expect_word(Word::Into)?;
            collect.count = Some(self.name()?);
            if !collect.aggregates.is_empty() {
                return self.unexpected("expecting no COUNT after AGGREGATE");
            }
        } else if self.word(Word::Into) {
            let name = self.name()?;
            let value = if self.sign("=") { Some(self.expression()?) } else { None };
            let keeps = value.is_none() && self.soft("KEEP");
            collect.into = Some((name, value));
            if keeps {
                collect.keep.push(self.name()?);
                while self.sign(",") {
                    collect.keep.push(self.name()?);
                }
            }
        }
        let empty =
            collect.keys.is_empty() && collect.aggregates.is_empty() && collect.count.is_none();
        if empty {
            return self.unexpected("");
        }
        collect.options = self.options()?;
        Ok(Statement::Collect(Box::new(collect)))
    }

    fn window(&mut self) -> Result<Statement> {
        let (range, bounds) = if *self.peek() == Kind::Sign("{") {
            (None, self.object()?)
        } else {
            let range = self.expression()?;
            self.expect_word(Word::With)?;
            (Some(range), self.object()?)
        };
        self.check_bounds(&bounds)?;
        self.expect_word(Word::Aggregate)?;
        let aggregates = self.aggregates()?;
        Ok(Statement::Window(Box::new(Window { range, bounds, aggregates })))
    }

    fn check_bounds(&self, bounds: &Expr) -> Result<()> {
        let Expr::Object(entries) = bounds else { return self.unexpected("") };
        if entries.is_empty() {
            return self
                .wrong("At least one WINDOW bound must be specified ('preceding'/'following')");
        }
        for (at, (key, _)) in entries.iter().enumerate() {
            let Key::Name(name) = key else { return self.unexpected("") };
            if !matches!(&**name, "preceding" | "following") {
                return self.wrong(&format!(
                    "Invalid WINDOW attribute '{name}'; only \"preceding\" and \"following\" are supported"
                ));
            }
            if entries[..at].iter().any(|(other, _)| other == key) {
                return self
                    .wrong(&format!("WINDOW attribute '{name}' is specified multiple times"));
            }
        }
        Ok(())
    }

    fn upsert(&mut self) -> Result<Statement> {
        let filter = self.word(Word::Filter);
        let search = match self.peek() {
            _ if filter => self.expression()?,
            Kind::Sign("{") => self.object()?,
            Kind::Bind(_) => self.primary()?,
            _ => return self.unexpected(""),
        };
        self.expect_word(Word::Insert)?;
        let insert = self.expression()?;
        let replace = self.word(Word::Replace);
        if !replace {
            self.expect_word(Word::Update)?;
        }
        let update = self.expression_before_in()?;
        let into = self.into()?;
        let options = self.options()?;
        Ok(Statement::Upsert(Box::new(Upsert {
            search,
            filter,
            insert,
            replace,
            update,
            into,
            options,
        })))
    }
}
