//! What stands between servers and their database: a proxy on Unix sockets that passes on what its rules name, and nothing else.

mod aql;
mod handler;
mod head;
mod query_body;
mod refusal;
mod rules;
mod settings;
mod target;
mod upstream;

pub use handler::{Proxy, bounds, router};
pub use rules::{CALLS_REFUSED, FAMILIES, Family, HEADERS_REFUSED, Mode, RULES, Rule};
pub use settings::Settings;
pub use upstream::Upstream;
