//! Handlers for calls about the server. The reported version is ArangoDB's; its details name this
//! engine.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

use super::auth::Caller;
use super::call::Call;
use super::front::Front;
use super::reply::{Reply, object};
use super::request::Request;

/// Version of this engine, as opposed to the emulated release.
const EMBEDDED_VERSION: &str = env!("CARGO_PKG_VERSION");
/// The name of the licence in answers.
const LICENSE: &str = "embedded";

/// `POST /_open/auth`
pub(super) fn token(front: &Front, request: &Request) -> Result<Reply> {
    let body = Value::object(request.object()?);
    match (body.text_of("username"), body.text_of("password")) {
        (Some(name), Some(password)) => {
            let jwt = front.auth.token(name, password)?;
            Ok(Reply::json(200, &object! { "jwt" => jwt }))
        }
        _ => Err(Error::new(Code::HttpBadParameter, "expecting 'username' and 'password'")),
    }
}

/// `GET /_admin/server/availability`
pub(super) fn availability(front: &Front) -> Reply {
    Reply::ok(200, object! { "mode" => mode_name(front) })
}

/// `GET /_admin/server/mode`
pub(super) fn mode(call: &Call<'_>) -> Reply {
    Reply::ok(200, object! { "mode" => mode_name(call.front) })
}

fn mode_name(front: &Front) -> &'static str {
    if front.is_read_only() { "readonly" } else { "default" }
}

/// `GET /_api/version`
pub(super) fn version(call: &Call<'_>) -> Result<Reply> {
    let version = call.engine().options().release.to_string();
    let mut body = object! {
        "server" => "arango",
        "license" => LICENSE,
        "version" => version.as_str(),
    };
    let more = if call.request.flag("details") == Some(true) {
        object! { "details" => details(call) }
    } else {
        object! {}
    };
    let versions = object! {
        "apiVersions" => vec![Value::from("v0")],
        "deprecatedApiVersions" => Vec::<Value>::new(),
        "requestedApiVersion" => "v0",
    };
    for part in [more, versions] {
        body = joined(&body, &part);
    }
    Ok(Reply::json(200, &body))
}

/// Version details that arangod reports and that have no meaning for the engine.
const NO_DETAIL: [&str; 45] = [
    "arm",
    "asan",
    "assertions",
    "avx",
    "avx2",
    "boost-version",
    "build-date",
    "build-id",
    "build-repository",
    "compiler",
    "coverage",
    "cplusplus",
    "curl-version",
    "debug",
    "endianness",
    "enterprise-build-repository",
    "enterprise-version",
    "failure-tests",
    "faiss",
    "fd-client-event-handler",
    "fd-setsize",
    "host",
    "icu-version",
    "ipo",
    "iresearch-version",
    "jemalloc",
    "libunwind",
    "maintainer-mode",
    "memory-profiler",
    "ndebug",
    "openmp",
    "openssl-version-compile-time",
    "openssl-version-run-time",
    "optimization-flags",
    "pic",
    "pie",
    "reactor-type",
    "replication2-enabled",
    "rocksdb-version",
    "sse42",
    "tsan",
    "unaligned-access",
    "v8-version",
    "vpack-version",
    "zlib-version",
];

/// Returns `details` of the version. Details that have a meaning only for arangod are `none`.
fn details(call: &Call<'_>) -> Value {
    let version = call.engine().options().release.to_string();
    let mut details: Object =
        NO_DETAIL.iter().map(|name| ((*name).into(), "none".into())).collect();
    let own = [
        ("architecture", "64bit".to_owned()),
        ("embedded", EMBEDDED_VERSION.to_owned()),
        ("endianness", "little".to_owned()),
        (
            "full-version-string",
            format!("ArangoDB {version} compatible, arango-embedded {EMBEDDED_VERSION}"),
        ),
        ("license", LICENSE.to_owned()),
        ("mode", "server".to_owned()),
        ("platform", std::env::consts::OS.to_owned()),
        ("role", call.engine().options().role.name().to_owned()),
        ("server-version", version),
        ("sizeof int", "4".to_owned()),
        ("sizeof long", "8".to_owned()),
        ("sizeof void*", "8".to_owned()),
    ];
    for (name, text) in own {
        details.insert(name, text.into());
    }
    Value::object(details)
}

/// Returns an object with the attributes of both objects.
pub(super) fn joined(first: &Value, second: &Value) -> Value {
    let both = [first, second].into_iter().filter_map(Value::as_object);
    Value::object(both.flat_map(|o| o.iter()).map(|(n, v)| (n.clone(), v.clone())).collect())
}

fn texts(words: &[&str]) -> Vec<Value> {
    words.iter().map(Value::string).collect()
}

/// `GET /_api/engine`. As in 3.12.10, the list of index types does not contain `vector`.
pub(super) fn engine() -> Reply {
    let indexes = [
        "primary",
        "edge",
        "hash",
        "skiplist",
        "ttl",
        "persistent",
        "geo",
        "fulltext",
        "mdi",
        "mdi-prefixed",
        "inverted",
    ];
    let aliases = object! { "hash" => "persistent", "skiplist" => "persistent", "zkd" => "mdi" };
    let supports = object! {
        "indexes" => texts(&indexes),
        "aliases" => object! { "indexes" => aliases },
    };
    Reply::json(
        200,
        &object! { "name" => "rocksdb", "supports" => supports, "endianness" => "big" },
    )
}

/// `GET /_admin/status`
pub(super) fn status(call: &Call<'_>) -> Reply {
    let server_info = object! {
        "role" => call.engine().options().role.name(),
        "maintenance" => false,
        "readOnly" => call.front.is_read_only(),
        "writeOpsEnabled" => !call.front.is_read_only(),
        "progress" => object! { "phase" => "in wait", "feature" => "", "recoveryTick" => 0_i64 },
    };
    let body = object! {
        "server" => "arango",
        "version" => call.engine().options().release.to_string(),
        "pid" => i64::from(std::process::id()),
        "license" => LICENSE,
        "mode" => "server",
        "operationMode" => "server",
        "foxxApi" => false,
        "host" => "",
        "embedded" => EMBEDDED_VERSION,
        "serverInfo" => server_info,
    };
    Reply::json(200, &body)
}

/// `GET /_admin/server/role`
pub(super) fn role(call: &Call<'_>) -> Reply {
    let role = call.engine().options().role.name();
    Reply::ok(200, object! { "role" => role, "mode" => "default" })
}

/// `GET /_admin/options-public`, since 3.12.8; the engine has none of ArangoDB's public options.
pub(super) fn options_public(call: &Call<'_>) -> Result<Reply> {
    if call.engine().options().release.options_public() {
        return Ok(Reply::json(200, &object! {}));
    }
    Err(Error::new(Code::HttpNotFound, "unknown path '/_admin/options-public'"))
}

/// `GET /_admin/time`
pub(super) fn time() -> Reply {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    Reply::ok(200, object! { "time" => Value::Double(now) })
}

/// `GET /_admin/license`
pub(super) fn license() -> Reply {
    Reply::json(
        200,
        &object! {
            "upgrading" => false,
            "diskUsage" => object! {
                "bytesUsed" => 0_i64,
                "bytesLimit" => 0_i64,
                "limitReached" => false,
                "secondsUntilReadOnly" => 0_i64,
                "secondsUntilShutDown" => 0_i64,
                "status" => "good",
            },
        },
    )
}

/// `GET /_admin/options`: allowed only with a server token, as in arangod by default.
pub(super) fn options(call: &Call<'_>) -> Result<Reply> {
    call.need_system()?;
    match call.caller {
        Caller::User(..) => Err(Error::of(Code::Forbidden)),
        Caller::Server => {
            let options = call.engine().options();
            let name = options.release.vector_option().trim_start_matches("--");
            let mut all = Object::new();
            all.push_new(name, options.vector_index.into());
            Ok(Reply::json(200, &Value::object(all)))
        }
    }
}

/// `GET /_api/key-generators`
pub(super) fn key_generators() -> Reply {
    let names = ["upgrade", "padded", "uuid", "autoincrement", "traditional"];
    Reply::json(200, &object! { "keyGenerators" => texts(&names) })
}
