//! Errors for requests whose path begins like a known API but does not exist, with the texts and
//! numbers of ArangoDB's handlers.

use crate::error::{Code, Error};

/// Returns the error for a path of a known API with a wrong number of segments or an unknown
/// action; `None` for other paths.
pub(super) fn expected(method: &str, path: &[&str]) -> Option<Error> {
    let bad = |text: &str| Some(Error::new(Code::HttpBadParameter, text));
    let missing = |text: &str| Some(Error::new(Code::HttpNotFound, text));
    match (method, path) {
        ("PUT" | "POST", ["_api", "cursor", ..]) => bad("expecting PUT /_api/cursor/<cursor-id>"),
        ("DELETE", ["_api", "cursor", ..]) => bad("expecting DELETE /_api/cursor/<cursor-id>"),
        ("PUT", ["_api", "collection"] | ["_api", "collection", _]) => {
            bad("expected PUT /_api/collection/<collection-name>/<action>")
        }
        ("DELETE", ["_api", "collection", ..]) => {
            bad("expected DELETE /_api/collection/<collection-name>")
        }
        ("GET", ["_api", "collection", _, _]) => missing(
            "expecting one of the resources 'checksum', 'count', 'figures', 'properties', \
             'responsibleShard', 'revision', 'shards'",
        ),
        ("PUT", ["_api", "collection", _, _]) => missing(
            "expecting one of the actions 'load', 'unload', 'truncate', 'properties', 'compact', \
             'rename', 'loadIndexesIntoMemory'",
        ),
        ("GET", ["_api", "collection", _, _, ..]) => {
            bad("expecting GET /_api/collection/<collection-name>/<method>")
        }
        ("GET", ["_api", "document"] | ["_api", "document", _]) => Some(Error::new(
            Code::DataSourceNotFound,
            "expecting GET /_api/document/<collection>/<key>",
        )),
        ("GET", ["_api", "view", ..]) => Some(Error::new(
            Code::BadParameter,
            "expecting GET /_api/view[/<view-name>[/properties]]",
        )),
        ("GET", ["_api", "engine", ..]) => {
            Some(Error::new(Code::BadParameter, "expecting GET /_api/engine[/stats]"))
        }
        ("GET", ["_api", "query"] | ["_api", "query", _, ..]) => {
            bad("expecting GET /_api/query/<type>")
        }
        _ => None,
    }
}
