//! Statements: what follows FOR, COLLECT, INSERT and their like.

use super::ast::{
    Body, Collect, Direction, Expr, Name, PathSearch, Source, Statement, Traversal, Upsert, Window,
};
use super::parser::Parser;
use super::token::{Kind, Word};
use crate::error::{Error, Result};

impl Parser<'_> {
    /// A whole query with its `WITH`.
    pub(super) fn query(&mut self) -> Result<Body> {
        let mut with = Vec::new();
        if self.word(Word::With) {
            loop {
                with.push(self.source()?);
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

    /// Whether a subquery begins here.
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

    /// Statements up to RETURN, or up to an end after a modification.
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

    /// Reads one statement; true if it was RETURN.
    fn statement(&mut self, out: &mut Vec<Statement>) -> Result<bool> {
        let Kind::Word(word) = *self.peek() else { return self.unexpected("") };
        self.advance();
        let statement = match word {
            Word::For => self.for_loop()?,
            Word::Let => return self.lets(out).map(|()| false),
            Word::Filter => Statement::Filter(self.expression()?),
            Word::Return => {
                let distinct = self.word(Word::Distinct);
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
            return self.source();
        }
        self.unexpected("expecting IN or INTO")
    }

    fn options(&mut self) -> Result<Option<Expr>> {
        if !self.is_soft(0, "OPTIONS") {
            return Ok(None);
        }
        self.advance();
        let height = self.height;
        let options = self.object()?;
        self.height = self.height.max(height);
        Ok(Some(options))
    }

    fn lets(&mut self, out: &mut Vec<Statement>) -> Result<()> {
        let mut height = 0;
        loop {
            if matches!(self.peek(), Kind::Sign("[" | "{")) {
                return Err(Error::unsupported("LET destructuring"));
            }
            let name = self.name()?;
            self.expect_sign("=")?;
            out.push(Statement::Let { name, value: self.expression()? });
            height = height.max(self.height);
            if !self.sign(",") {
                self.height = height;
                return Ok(());
            }
        }
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

    fn for_loop(&mut self) -> Result<Statement> {
        let mut variables = vec![self.name()?];
        while self.sign(",") {
            variables.push(self.name()?);
        }
        self.expect_word(Word::In)?;
        let depth = if matches!(self.peek(), Kind::Word(Word::Outbound | Word::Inbound | Word::Any))
        {
            None
        } else {
            let source = self.expression()?;
            if !matches!(self.peek(), Kind::Word(Word::Outbound | Word::Inbound | Word::Any)) {
                return self.plain_for(variables, source);
            }
            Some(source)
        };
        self.traversal(variables, depth)
    }

    fn plain_for(&mut self, mut variables: Vec<Name>, source: Expr) -> Result<Statement> {
        if variables.len() > 1 {
            return self.unexpected("expecting OUTBOUND or INBOUND or ANY");
        }
        let Some(variable) = variables.pop() else { return self.unexpected("") };
        let search = if self.soft("SEARCH") { Some(self.expression()?) } else { None };
        Ok(Statement::For { variable, source, search, options: self.options()? })
    }

    fn traversal(&mut self, variables: Vec<Name>, depth: Option<Expr>) -> Result<Statement> {
        if variables.len() > 3 {
            return self.unexpected("expecting at most three variables");
        }
        let Some(direction) = self.direction() else { return self.unexpected("") };
        let search = self.path_search();
        let start = self.expression()?;
        let target = if search != PathSearch::Traversal {
            if !self.soft("TO") {
                return self.unexpected("expecting TO");
            }
            Some(self.expression()?)
        } else {
            None
        };
        let mut edges = Vec::new();
        let graph = if self.word(Word::Graph) {
            Some(self.expression()?)
        } else {
            loop {
                let own = self.direction();
                edges.push((own, self.source()?));
                if !self.sign(",") {
                    break None;
                }
            }
        };
        let prune = if self.soft("PRUNE") { Some(self.prune()?) } else { None };
        let options = self.options()?;
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
            let descending = self.word(Word::Desc);
            if !descending {
                self.word(Word::Asc);
            }
            keys.push((key, descending));
            if !self.sign(",") {
                self.height = height;
                return Ok(Statement::Sort(keys));
            }
        }
    }

    /// `name = expression, …` up to something else.
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

    fn collect(&mut self) -> Result<Statement> {
        self.height = 1;
        let mut collect = Collect::default();
        let named = matches!(self.peek(), Kind::Name(_) | Kind::QuotedName(_))
            && *self.peek_at(1) == Kind::Sign("=");
        if named {
            collect.keys = self.assignments()?;
        }
        if self.word(Word::Aggregate) {
            collect.aggregates = self.assignments()?;
        }
        if self.word(Word::With) {
            if !self.soft("COUNT") {
                return self.unexpected("expecting COUNT");
            }
            self.expect_word(Word::Into)?;
            collect.count = Some(self.name()?);
            if !collect.aggregates.is_empty() {
                return self.unexpected("expecting no COUNT behind AGGREGATE");
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
        let empty = collect.keys.is_empty()
            && collect.aggregates.is_empty()
            && collect.into.is_none()
            && collect.count.is_none();
        if empty {
            return self.unexpected("expecting identifier or AGGREGATE or WITH COUNT");
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
        self.expect_word(Word::Aggregate)?;
        let aggregates = self.assignments()?;
        Ok(Statement::Window(Box::new(Window { range, bounds, aggregates })))
    }

    fn upsert(&mut self) -> Result<Statement> {
        let filter = self.word(Word::Filter);
        let search = self.expression()?;
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
