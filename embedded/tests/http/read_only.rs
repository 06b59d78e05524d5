//! The read-only socket shows the same data and refuses every write with 403/1004.

use super::wire::Server;

#[test]
fn nothing_that_writes_passes() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/collection {"name":"c"} -> 200
        POST /_api/document/c {"_key":"k"} -> 202
        "#,
    );
    let mut reader = server.reader();
    reader.script(
        r#"
        GET /_api/document/c/k -> 200
        PUT /_api/document/c?onlyget=true ["k"] -> 200
        GET /_api/collection/c/count -> 200
        POST /_api/document/c {} -> 403/1004
        PUT /_api/document/c/k {} -> 403/1004
        PUT /_api/document/c [] -> 403/1004
        PATCH /_api/document/c/k {} -> 403/1004
        DELETE /_api/document/c/k -> 403/1004
        PUT /_api/collection/c/truncate -> 403/1004
        POST /_api/collection {"name":"d"} -> 403/1004
        DELETE /_api/collection/c -> 403/1004
        POST /_api/index?collection=c {"type":"persistent","fields":["a"]} -> 403/1004
        POST /_api/user {"user":"u"} -> 403/1004
        POST /_api/gharial {"name":"g"} -> 403/1004
        POST /_api/transaction/begin {"collections":{"write":"c"}} -> 403/1004
        POST /_api/transaction/begin {"collections":{"exclusive":"c"}} -> 403/1004
        DELETE /_api/transaction/write -> 403/1004
        "#,
    );
    assert_eq!(reader.get("/_admin/server/availability").at("/mode"), "readonly");
    assert_eq!(reader.get("/_admin/status").at("/serverInfo/readOnly"), true);
    // The read-only socket cannot end a write transaction of the other socket, but can end its own
    // transaction.
    let writing = root.post("/_api/transaction/begin", r#"{"collections":{"write":"c"}}"#);
    let writing = writing.text_at("/result/id");
    reader.script(&format!("PUT /_api/transaction/{writing} -> 403/1004"));
    reader.script(&format!("DELETE /_api/transaction/{writing} -> 403/1004"));
    let reading = reader.post("/_api/transaction/begin", r#"{"collections":{"read":"c"}}"#);
    let reading = reading.text_at("/result/id");
    let mut within = server.reader().with("x-arango-trx-id", &reading);
    within.script("GET /_api/document/c/k -> 200");
    reader.script(&format!("PUT /_api/transaction/{reading} -> 200"));
}
