//! Prints a syntax tree as query text that parses to the same tree; every operation is in
//! parentheses.

use std::fmt::{self, Display, Formatter};

use super::ast::{
    Binary, Body, Collect, Direction, Expr, Key, PathSearch, Pattern, Quantifier, SortDirection,
    Source, Statement, Traversal, Unary,
};
use super::token::Word;
use crate::value::Value;

/// Returns the text of a query's syntax tree.
pub fn print(body: &Body) -> String {
    body.to_string()
}

/// Prints items separated by commas.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}

/// Prints a space, a keyword and a value; prints nothing without a value.
struct Clause<'a, T>(&'a str, &'a Option<T>);

impl<T: Display> Display for Clause<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(value) => write!(f, " {}{value}", self.0),
            None => Ok(()),
        }
    }
}

/// Prints a name, in back-ticks if it would not parse without them.
struct QuotedName<'a>(&'a str);

impl Display for QuotedName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        let plain = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
            && Word::of(self.0).is_none();
        if plain {
            return f.write_str(self.0);
        }
        write!(f, "`{}`", self.0.replace('\\', "\\\\").replace('`', "\\`"))
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{}", QuotedName(name)),
            Self::Bind(name) => write!(f, "@@{name}"),
            Self::ValueBind(name) => write!(f, "@{name}"),
        }
    }
}

impl Display for Pattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hole => Ok(()),
            Self::Name(name) => write!(f, "{}", QuotedName(name)),
            // A comma follows each item, because otherwise a skipped last item would be lost.
            Self::Array(items) => {
                f.write_str("[")?;
                items.iter().try_for_each(|item| write!(f, "{item}, "))?;
                f.write_str("]")
            }
            Self::Object(items) => {
                f.write_str("{")?;
                for item in items {
                    match item {
                        Some((name, pattern)) => write!(f, "{}: {pattern}, ", QuotedName(name))?,
                        None => f.write_str(", ")?,
                    }
                }
                f.write_str("}")
            }
        }
    }
}

impl Display for Body {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.with.is_empty() {
            writeln!(f, "WITH {}", List(&self.with))?;
        }
        for (i, statement) in self.statements.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{statement}")?;
        }
        Ok(())
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::For { variable, source, search, options } => {
                let (search, options) = (Clause("SEARCH ", search), Clause("OPTIONS ", options));
                write!(f, "FOR {} IN {source}{search}{options}", QuotedName(variable))
            }
            Self::Traversal(traversal) => write!(f, "{traversal}"),
            Self::Filter(condition) => write!(f, "FILTER {condition}"),
            Self::Let { name, value } => write!(f, "LET {} = {value}", QuotedName(name)),
            Self::Destructure { pattern, value } => write!(f, "LET {pattern} = {value}"),
            Self::Sort(keys) => {
                f.write_str("SORT ")?;
                for (i, (key, direction)) in keys.iter().enumerate() {
                    write!(f, "{}{key}", if i > 0 { ", " } else { "" })?;
                    match direction {
                        SortDirection::Ascending => {}
                        SortDirection::Descending => f.write_str(" DESC")?,
                        SortDirection::Given(value) => write!(f, " {value}")?,
                    }
                }
                Ok(())
            }
            Self::Limit { offset: Some(offset), count } => write!(f, "LIMIT {offset}, {count}"),
            Self::Limit { offset: None, count } => write!(f, "LIMIT {count}"),
            Self::Collect(collect) => write!(f, "{collect}"),
            Self::Window(window) => {
                f.write_str("WINDOW ")?;
                if let Some(range) = &window.range {
                    write!(f, "{range} WITH ")?;
                }
                write!(f, "{} AGGREGATE ", window.bounds)?;
                assignments(&window.aggregates, f)
            }
            Self::Return { distinct, value } => {
                write!(f, "RETURN {}{value}", if *distinct { "DISTINCT " } else { "" })
            }
            Self::Insert { document, into, options } => {
                write!(f, "INSERT {document} INTO {into}{}", Clause("OPTIONS ", options))
            }
            Self::Change { replace, key, with, into, options } => {
                let word = if *replace { "REPLACE" } else { "UPDATE" };
                let (with, options) = (Clause("WITH ", with), Clause("OPTIONS ", options));
                write!(f, "{word} {key}{with} IN {into}{options}")
            }
            Self::Remove { key, from, options } => {
                write!(f, "REMOVE {key} IN {from}{}", Clause("OPTIONS ", options))
            }
            Self::Upsert(upsert) => {
                let filter = if upsert.filter { "FILTER " } else { "" };
                let word = if upsert.replace { "REPLACE" } else { "UPDATE" };
                write!(
                    f,
                    "UPSERT {filter}{} INSERT {} {word} {} IN {}{}",
                    upsert.search,
                    upsert.insert,
                    upsert.update,
                    upsert.into,
                    Clause("OPTIONS ", &upsert.options)
                )
            }
        }
    }
}

fn assignments(items: &[(super::ast::Name, Expr)], f: &mut Formatter<'_>) -> fmt::Result {
    for (i, (name, value)) in items.iter().enumerate() {
        write!(f, "{}{} = {value}", if i > 0 { ", " } else { "" }, QuotedName(name))?;
    }
    Ok(())
}

impl Display for Collect {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("COLLECT")?;
        if !self.keys.is_empty() {
            f.write_str(" ")?;
            assignments(&self.keys, f)?;
        }
        if !self.aggregates.is_empty() {
            f.write_str(" AGGREGATE ")?;
            assignments(&self.aggregates, f)?;
        }
        if let Some(count) = &self.count {
            write!(f, " WITH COUNT INTO {}", QuotedName(count))?;
        }
        if let Some((name, value)) = &self.into {
            write!(f, " INTO {}{}", QuotedName(name), Clause("= ", value))?;
        }
        for (i, name) in self.keep.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { " KEEP " } else { ", " }, QuotedName(name))?;
        }
        write!(f, "{}", Clause("OPTIONS ", &self.options))
    }
}

impl Display for Direction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outbound => "OUTBOUND",
            Self::Inbound => "INBOUND",
            Self::Any => "ANY",
        })
    }
}

impl Display for PathSearch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Traversal => "graph traversal",
            search => search.word(),
        })
    }
}

impl Display for Traversal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names: Vec<QuotedName<'_>> = self.variables.iter().map(|n| QuotedName(n)).collect();
        write!(f, "FOR {} IN ", List(&names))?;
        if let Some(depth) = &self.depth {
            write!(f, "{depth} ")?;
        }
        write!(f, "{} ", self.direction)?;
        if let Some(target) = &self.target {
            write!(f, "{} {} TO {target} ", self.search, self.start)?;
        } else {
            write!(f, "{} ", self.start)?;
        }
        if let Some(graph) = &self.graph {
            write!(f, "GRAPH {graph}")?;
        }
        for (i, (direction, source)) in self.edges.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            if let Some(direction) = direction {
                write!(f, "{direction} ")?;
            }
            write!(f, "{source}")?;
        }
        if let Some((name, condition)) = &self.prune {
            f.write_str(" PRUNE ")?;
            if let Some(name) = name {
                write!(f, "{} = ", QuotedName(name))?;
            }
            write!(f, "{condition}")?;
        }
        write!(f, "{}", Clause("OPTIONS ", &self.options))
    }
}

impl Display for Binary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "IN",
            Self::NotIn => "NOT IN",
            Self::Like => "LIKE",
            Self::NotLike => "NOT LIKE",
            Self::Match => "=~",
            Self::NotMatch => "!~",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Range => "..",
        })
    }
}

impl Display for Unary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Not => "!",
            Self::Plus => "+",
            Self::Minus => "-",
        })
    }
}

impl Display for Quantifier {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("ALL"),
            Self::Any => f.write_str("ANY"),
            Self::None => f.write_str("NONE"),
            Self::AtLeast(count) => write!(f, "AT LEAST ({count})"),
            Self::Exactly(count) => write!(f, "{count}"),
        }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) if name.is_empty() => f.write_str("\"\""),
            Self::Name(name) => write!(f, "{}", QuotedName(name)),
            Self::Bind(name) => write!(f, "@{name}"),
            Self::Computed(value) => write!(f, "[{value}]"),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            // A number out of range, which JSON cannot spell.
            Self::Literal(Value::Double(number)) if number.is_infinite() => f.write_str("1e999"),
            Self::Literal(value) => f.write_str(&value.to_json()),
            Self::Name(name) => write!(f, "{}", QuotedName(name)),
            Self::Bind(name) => write!(f, "@{name}"),
            Self::CollectionBind(name) => write!(f, "@@{name}"),
            Self::Element => Ok(()),
            Self::Attribute(base, Key::Name(name)) if name.is_empty() => {
                write!(f, "{}[\"\"]", AccessBase(base))
            }
            Self::Attribute(base, key) => write!(f, "{}.{key}", AccessBase(base)),
            Self::Index(base, index) => write!(f, "{}[{index}]", AccessBase(base)),
            Self::Array(items) => write!(f, "[{}]", List(items)),
            Self::Object(entries) => {
                f.write_str("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            Self::Unary(operator, value) => write!(f, "({operator}{value})"),
            Self::Binary(operator, left, right) => write!(f, "({left} {operator} {right})"),
            Self::Quantified(quantifier, operator, left, right) => {
                write!(f, "({left} {quantifier} {operator} {right})")
            }
            Self::Ternary(condition, Some(yes), no) => write!(f, "({condition} ? {yes} : {no})"),
            Self::Ternary(condition, None, no) => write!(f, "({condition} ?: {no})"),
            Self::Call(name, arguments) => write!(f, "{name}({})", List(arguments)),
            Self::Expansion(expansion) => {
                write!(f, "{}[{}", AccessBase(&expansion.base), "*".repeat(expansion.stars))?;
                write!(f, "{}", Clause("FILTER ", &expansion.filter))?;
                match &expansion.limit {
                    Some((Some(offset), count)) => write!(f, " LIMIT {offset}, {count}")?,
                    Some((None, count)) => write!(f, " LIMIT {count}")?,
                    None => {}
                }
                write!(f, "{}]{}", Clause("RETURN ", &expansion.projection), expansion.tail)
            }
            Self::Question(base, quantifier, filter) => {
                write!(f, "{}[?", AccessBase(base))?;
                write!(f, "{}{}]", Clause("", quantifier), Clause("FILTER ", filter))
            }
            Self::Group(inner) => write!(f, "({inner})"),
            Self::Subquery(body) => write!(f, "({body})"),
        }
    }
}

/// Prints the expression before an attribute or index access, with parentheses around constants.
/// The current item of an expansion is printed as an empty text.
struct AccessBase<'a>(&'a Expr);

impl Display for AccessBase<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expr::Literal(_) => write!(f, "({})", self.0),
            other => write!(f, "{other}"),
        }
    }
}
