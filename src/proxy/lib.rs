//! A proxy on Unix sockets between vctx servers and a database, which forwards only those requests
//! that its rules allow.

mod aql;
mod handler;
mod head;
mod query_body;
mod refusal;
mod rules;
mod settings;
mod target;
mod upstream;

pub use handler::{ProxyHandle, bounds};
pub use rules::{CALLS_REFUSED, FAMILIES, Family, HEADERS_REFUSED, Mode, RULES, Rule};
pub use settings::Settings;
pub use upstream::Upstream;
