//! Users and grants (HTTP API manual of 3.12): 401 without any access to the database, 403/11 with
//! insufficient access.

use super::wire::{Client, Server};

fn user(server: &Server, name: &str) -> Client {
    server.client("rw").login(name, "p").within("d")
}

#[test]
fn grants_open_exactly_what_they_name() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/database {"name":"d"} -> 201
        POST /_db/d/_api/collection {"name":"c"} -> 200
        POST /_db/d/_api/collection {"name":"hidden"} -> 200
        POST /_db/d/_api/document/c {"_key":"k"} -> 202
        POST /_api/user {"user":"u","passwd":"p"} -> 201
        POST /_api/user {"user":"u","passwd":"p"} -> 409/1702
        GET /_api/user/unknown -> 404/1703
        "#,
    );
    let mut ann = user(&server, "u");
    ann.script("GET /_api/document/c/k -> 401/11");
    ann.script("GET /_api/version -> 401/11");

    // A grant on the database gives no access to its collections.
    root.script(r#"PUT /_api/user/u/database/d {"grant":"ro"} -> 200"#);
    ann.script(
        r#"
        GET /_api/version -> 200
        GET /_api/document/c/k -> 403/11
        POST /_api/collection {"name":"x"} -> 403/11
        "#,
    );
    assert!(!ann.get("/_api/collection").text.contains("\"c\""));

    root.script(r#"PUT /_api/user/u/database/d/* {"grant":"ro"} -> 200"#);
    ann.script(
        r#"
        GET /_api/document/c/k -> 200
        GET /_api/collection/c/count -> 200
        POST /_api/document/c {} -> 403/11
        PUT /_api/collection/c/truncate -> 403/11
        DELETE /_api/document/c ["k"] -> 403/11
        POST /_api/transaction/begin {"collections":{"write":"c"}} -> 403/11
        "#,
    );

    // The user of an application may write documents, but may not create collections or indexes.
    root.script(
        r#"
        PUT /_api/user/u/database/d/* {"grant":"rw"} -> 200
        PUT /_api/user/u/database/d/hidden {"grant":"none"} -> 200
        "#,
    );
    ann.script(
        r#"
        POST /_api/document/c {} -> 202
        GET /_api/document/hidden/k -> 403/11
        POST /_api/collection {"name":"x"} -> 403/11
        PUT /_api/collection/c/properties {"waitForSync":true} -> 403/11
        POST /_api/index?collection=c {"type":"persistent","fields":["a"]} -> 403/11
        POST /_api/view {"name":"v","type":"arangosearch"} -> 403/11
        POST /_api/gharial {"name":"g"} -> 403/11
        POST /_api/analyzer {"name":"a","type":"identity"} -> 403/11
        DELETE /_api/collection/c -> 403/11
        GET /_api/user/u -> 200
        GET /_api/user/root -> 403/11
        "#,
    );
    let mut elsewhere = server.client("rw").login("u", "p");
    elsewhere.script(
        r#"
        POST /_api/database {"name":"e"} -> 401/11
        GET /_api/user/u/database -> 200
        GET /_db/unknown/_api/version -> 401/11
        "#,
    );
    assert_eq!(root.get("/_api/user/u/database").at("/result"), serde_json::json!({"d": "ro"}));
    assert_eq!(root.get("/_api/user/u/database/d/c").at("/result"), "rw");
    assert_eq!(root.get("/_api/user/u/database/d/hidden").at("/result"), "none");
    assert_eq!(root.get("/_api/user/u/database/_system/_users").at("/result"), "none");
    let full = root.get("/_api/user/u/database?full=true");
    assert_eq!(full.at("/result/d/collections/hidden"), "none");
    assert_eq!(full.at("/result/d/collections/c"), "undefined");
    assert_eq!(full.at("/result/d/permission"), "ro");

    // A replaced user has no grants and a new password.
    root.script(
        r#"
        PUT /_api/user/u {"passwd":"q"} -> 200
        DELETE /_api/user/u/database/d -> 202
        "#,
    );
    ann.script("GET /_api/version -> 401/11");
    server.client("rw").login("u", "q").within("d").script("GET /_api/version -> 401/11");
    root.script(
        r#"
        DELETE /_api/user/u -> 202
        DELETE /_api/user/u -> 404/1703
        PUT /_api/user/u/database/d {"grant":"rw"} -> 404/1703
        "#,
    );
}

#[test]
fn users_change_their_password_and_nothing_more() {
    let server = Server::start();
    let mut root = server.root();
    root.script(
        r#"
        POST /_api/user {"user":"u","passwd":"p"} -> 201
        POST /_api/user {"user":"","passwd":"p"} -> 400/1700
        PUT /_api/user/u/database/_system {"grant":"ro"} -> 200
        PUT /_api/user/u/database/_system {"grant":"all"} -> 400/400
        "#,
    );
    let mut ann = server.client("rw").login("u", "p");
    ann.script(
        r#"
        GET /_api/version -> 200
        PATCH /_api/user/root {"passwd":"x"} -> 403/11
        PATCH /_api/user/u {"active":true} -> 403/11
        PUT /_api/user/u/database/_system {"grant":"rw"} -> 403/11
        GET /_api/user -> 403/11
        GET /_api/database -> 403/11
        PATCH /_api/user/u {"passwd":"q"} -> 200
        GET /_api/version -> 401/11
        "#,
    );
    let mut ann = server.client("rw").login("u", "q");
    ann.script("GET /_api/version -> 200");
    root.script(r#"PATCH /_api/user/u {"active":false} -> 200"#);
    ann.script("GET /_api/version -> 401/11");
}
