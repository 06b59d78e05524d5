//! `vctx proxy`: runs the proxy between servers and a database, or prints the proxy's rules.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::app;
use crate::args;
use crate::exit::Failure;
use crate::output;
use vctx_proxy::{CALLS_REFUSED, FAMILIES, HEADERS_REFUSED, Mode, RULES};

const EXAMPLES: &str = "\
A proxy listens on its own Unix socket (mode 0660, in a directory of mode 0700 or 0750). It forwards only the requests that its rules allow:
  ro  reads: the paths that a server reads, and queries whose text only reads
  rw  reads, queries, stream transactions, and the indexes that a running server makes
Neither mode forwards requests that manage users, create the schema (`vctx setup`), run JavaScript or administer the database. For these
requests, an administrator uses the database's own socket.

The proxy replaces the credentials of its client by its own: ARANGO_USER with ARANGO_PASSWORD or ARANGO_PASSWORD_FILE, or
$CREDENTIALS_DIRECTORY/arango-password. After SIGTERM, the proxy accepts no connection, and running requests have 10 s to end.

Examples:
  vctx proxy --mode ro --listen /run/vctx-proxy-ro/ro.sock --upstream /run/arangodb3/arangod.sock
  vctx proxy --mode rw --listen ./rw.sock --upstream ./arangod.sock --metrics ./rw-metrics.sock
  vctx proxy --rules            the rules for forwarded and refused requests
  ARANGO_RO_UDS=/run/vctx-proxy-ro/ro.sock ARANGO_RW_UDS=/run/vctx-proxy-rw/rw.sock vctx serve

Limits and timeouts of the proxy: [proxy] in the configuration. Metrics: GET /metrics on the socket of --metrics. See docs/how-to/proxy.md";

/// Run a proxy in front of the database; the proxy forwards only the requests that servers need
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Proxy {
    /// Requests to forward: ro (reads) or rw (reads and writes of a running server)
    #[arg(long, value_name = "ro|rw", value_parser = mode, required_unless_present = "rules")]
    mode: Option<Mode>,

    /// Socket to listen on
    #[arg(long, value_name = "SOCKET", required_unless_present = "rules")]
    listen: Option<PathBuf>,

    /// Socket of the database
    #[arg(long, value_name = "SOCKET", required_unless_present = "rules")]
    upstream: Option<String>,

    /// Socket for metrics (Prometheus text at /metrics) [default: none]
    #[arg(long, value_name = "SOCKET")]
    metrics: Option<PathBuf>,

    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the rules for forwarded and refused requests
    #[arg(long)]
    pub rules: bool,

    /// With --rules: print JSON
    #[arg(long, requires = "rules")]
    pub json: bool,
}

fn mode(text: &str) -> Result<Mode, String> {
    Mode::by_name(text).ok_or_else(|| "use ro or rw".to_owned())
}

/// Runs the proxy.
pub fn run(asked: Proxy) -> ExitCode {
    let (Some(mode), Some(listen), Some(upstream)) = (asked.mode, asked.listen, asked.upstream)
    else {
        let missing = Failure::usage("--mode, --listen and --upstream are needed");
        missing.tell(false);
        return ExitCode::from(missing.exit as u8);
    };
    // A plain socket path may be relative to the current directory; addresses with a scheme are
    // absolute.
    let upstream = match upstream.contains("://") {
        true => upstream,
        false => args::absolute(upstream.into()).to_string_lossy().into_owned(),
    };
    app::proxy(&app::ProxyOptions {
        mode,
        listen: args::absolute(listen),
        upstream,
        metrics: asked.metrics.map(args::absolute),
        config: asked.config,
    })
}

/// Prints the proxy's rules, as tables or as JSON.
pub async fn rules(asked: Proxy) -> Result<(), Failure> {
    output::told(asked.json, &as_json(), |_| as_tables())
}

fn as_json() -> Value {
    let pass = RULES.iter().map(|rule| {
        let modes: Vec<&str> =
            [Mode::Ro, Mode::Rw].into_iter().filter(|m| rule.passes(*m)).map(Mode::text).collect();
        json!({"method": rule.method, "path": rule.path, "modes": modes, "parameters": rule.parameters,
            "carries": format!("{:?}", rule.carries).to_lowercase(), "sent_again": rule.repeats, "for": rule.why})
    });
    let named = |list: &[(&str, &str)], name: &str| -> Vec<Value> {
        list.iter().map(|(what, why)| json!({name: what, "why": why})).collect()
    };
    json!({
        "pass": pass.collect::<Vec<_>>(),
        "refused": FAMILIES.iter().map(|f| json!({"paths": f.paths, "what": f.what})).collect::<Vec<_>>(),
        "refused_headers": named(HEADERS_REFUSED, "begins_with"),
        "refused_functions": named(CALLS_REFUSED, "function"),
    })
}

fn as_tables() -> String {
    let rows: Vec<Vec<String>> = RULES
        .iter()
        .map(|rule| {
            let modes = if rule.reads { "ro rw" } else { "   rw" };
            let parameters = rule.parameters.join("&");
            let mark = if parameters.is_empty() { "" } else { "?" };
            let path = format!("{}{mark}{parameters}", rule.path);
            vec![modes.into(), rule.method.into(), path, rule.why.into()]
        })
        .collect();
    let families: Vec<Vec<String>> =
        FAMILIES.iter().map(|f| vec![f.what.into(), f.paths.join(" ")]).collect();
    let pairs = |list: &[(&str, &str)]| -> Vec<Vec<String>> {
        list.iter().map(|(what, why)| vec![(*what).into(), (*why).into()]).collect()
    };
    format!(
        "What passes, alone or behind /_db/NAME ({{name}}: a name, {{id}}: a number):\n{}\n\n\
         What does not, in neither mode; all else is refused too:\n{}\n\n\
         Headers that refuse a request; all others but x-arango-trx-id (rw) end at the proxy:\n{}\n\n\
         Functions that refuse a query in mode ro, beside every GROUP::NAME:\n{}",
        output::table(&["mode", "method", "path", "what for"], &[], &rows),
        output::table(&["what", "paths, except the paths above"], &[], &families),
        output::table(&["begins with", "meaning"], &[], &pairs(HEADERS_REFUSED)),
        output::table(&["function", "what it does"], &[], &pairs(CALLS_REFUSED)),
    )
}
