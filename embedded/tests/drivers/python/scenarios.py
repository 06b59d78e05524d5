"""What an application does with python-arango, over a Unix socket; statuses and error numbers are asserted throughout.

Usage: scenarios.py SOCKET ROOT_PASSWORD [PART OF A NAME]
"""

import sys
import time
import traceback

from arango import ArangoClient
from arango.exceptions import ArangoServerError
from unix_socket import UnixSocketHTTPClient

SOCKET, PASSWORD = sys.argv[1], sys.argv[2]
WANTED = sys.argv[3] if len(sys.argv) > 3 else ""
CLIENT = ArangoClient(hosts="http://localhost", http_client=UnixSocketHTTPClient(SOCKET))
SYSTEM = CLIENT.db("_system", "root", PASSWORD, verify=True)


def refused(status, number, call, *arguments, **options):
    """The call fails with that HTTP status and that errorNum."""
    try:
        answer = call(*arguments, **options)
    except ArangoServerError as error:
        assert (error.http_code, error.error_code) == (status, number), error
        return error
    raise AssertionError(f"expected {status}/{number}, got {answer!r}")


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def eventually(ask, expected, seconds=20):
    """Views follow a moment later."""
    end = time.monotonic() + seconds
    while True:
        found = ask()
        if found == expected:
            return
        assert time.monotonic() < end, f"found {found!r}, expected {expected!r}"
        time.sleep(0.05)


# ---- one function for each scenario; each scenario has its own database


def server(db):
    equal(db.name, "server")
    assert db.version().startswith("3.12."), db.version()
    equal(db.details()["role"], "SINGLE")
    equal(db.engine()["name"], "rocksdb")
    equal(db.role(), "SINGLE")
    equal(db.properties()["name"], "server")
    equal(db.status()["server_info"]["read_only"], False)
    equal(SYSTEM.mode(), "default")
    assert "arangodb_server_statistics_server_uptime_total" in db.metrics()
    assert "system" in db.statistics()
    equal(db.echo("body")["requestBody"], "body")
    equal(SYSTEM.tasks(), [])
    assert db.required_db_version().startswith("312")
    refused(403, 11, SYSTEM.options)


def databases(db):
    name = "Datenbänke 😀"
    assert SYSTEM.create_database(name)
    assert name in SYSTEM.databases() and SYSTEM.has_database(name)
    refused(409, 1207, SYSTEM.create_database, name)
    refused(400, 1229, SYSTEM.create_database, "a/b")
    refused(403, 1230, db.create_database, "nested")
    other = CLIENT.db(name, "root", PASSWORD)
    other.create_collection("Ding").insert({"_key": "1"})
    equal(other.collection("Ding").count(), 1)
    assert SYSTEM.delete_database(name)
    refused(404, 1228, SYSTEM.delete_database, name)
    assert not SYSTEM.delete_database(name, ignore_missing=True)
    refused(404, 1228, other.collections)


def collections(db):
    made = db.create_collection("things", sync=True, schema={
        "rule": {"properties": {"n": {"type": "number"}}}, "level": "strict", "message": "n is a number",
    })
    refused(409, 1207, db.create_collection, "things")
    refused(400, 1208, db.create_collection, "no/name")
    refused(404, 1203, db.collection("nowhere").properties)
    equal(made.properties()["sync"], True)
    error = refused(400, 1620, made.insert, {"n": "one"})
    equal(error.error_message, "n is a number")
    made.configure(sync=False, schema={"rule": {}, "level": "none"})
    made.insert({"_key": "a", "n": "one"})
    equal(made.properties()["sync"], False)
    equal(made.count(), 1)
    assert made.revision() != "0" and made.checksum(with_rev=True, with_data=True)
    assert made.statistics()["indexes"]["count"] == 1
    assert made.recalculate_count() and made.load_indexes()
    made.rename("renamed")
    assert db.has_collection("renamed") and not db.has_collection("things")
    assert db.collection("renamed").truncate()
    equal(db.collection("renamed").count(), 0)
    numbers = db.create_collection("numbers", key_generator="autoincrement", key_increment=5, key_offset=10)
    equal([numbers.insert({})["_key"] for _ in range(3)], ["10", "15", "20"])
    closed = db.create_collection("closed", user_keys=False)
    refused(400, 1222, closed.insert, {"_key": "mine"})
    assert db.delete_collection("renamed")
    refused(404, 1203, db.delete_collection, "renamed")


def computed_values(db):
    value = {"name": "full", "expression": "RETURN CONCAT(@doc.first, ' ', @doc.last)", "overwrite": True}
    animals = db.create_collection("animals", computedValues=[value])
    animals.insert({"_key": "1", "first": "grey", "last": "wolf"})
    equal(animals.get("1")["full"], "grey wolf")
    animals.update({"_key": "1", "last": "seal"})
    equal(animals.get("1")["full"], "grey seal")
    shown = animals.properties()["computedValues"][0]
    equal(shown["computeOn"], ["insert", "update", "replace"])
    equal((shown["keepNull"], shown["failOnWarning"]), (True, False))
    wrong = dict(value, expression="FOR d IN animals RETURN d")
    refused(400, 10, db.create_collection, "others", computedValues=[wrong])
    animals.configure(computed_values=[])
    animals.insert({"_key": "2", "first": "red"})
    assert "full" not in animals.get("2")


def documents(db):
    c = db.create_collection("c")
    meta = c.insert({"_key": "a", "n": 1, "deep": {"x": 1, "y": 2}})
    equal(meta["_id"], "c/a")
    refused(409, 1210, c.insert, {"_key": "a"})
    refused(400, 1221, c.insert, {"_key": "a/b"})
    equal(c.get("a")["n"], 1)
    equal(c.get("nobody"), None)
    assert c.has("a") and "nobody" not in c
    changed = c.update({"_key": "a", "deep": {"y": 3}, "gone": None}, keep_none=False, return_new=True, return_old=True)
    equal(changed["new"]["deep"], {"x": 1, "y": 3})
    equal(changed["old"]["deep"], {"x": 1, "y": 2})
    assert "gone" not in changed["new"]
    c.update({"_key": "a", "deep": {"z": 1}}, merge=False)
    equal(c.get("a")["deep"], {"z": 1})
    refused(412, 1200, c.replace, {"_key": "a", "_rev": meta["_rev"], "n": 2})
    equal(c.replace({"_key": "a", "n": 2}, return_new=True)["new"]["n"], 2)
    equal(c.insert({"_key": "a", "n": 3}, overwrite_mode="update", return_new=True)["new"]["n"], 3)
    equal(c.insert({"_key": "a", "n": 9}, overwrite_mode="ignore")["_key"], "a")
    equal(c.get("a")["n"], 3)
    refused(404, 1202, c.update, {"_key": "nobody", "n": 1})
    refused(404, 1202, c.delete, "nobody")
    assert not c.delete("nobody", ignore_missing=True)
    for key in ["a:b", "50%", "(1)", "x=y;z", "@me", "it's"]:
        c.insert({"_key": key})
        equal(c.get(key)["_key"], key)
        c.delete(key)
    equal(c.delete("a", return_old=True)["old"]["n"], 3)
    equal(c.insert({"v": 2, "_key": "v"}, version_attribute="v")["_key"], "v")
    c.update({"_key": "v", "v": 1, "late": True}, version_attribute="v")
    assert "late" not in c.get("v")
    c.insert({"_key": "quiet"}, silent=True)


def many_documents(db):
    c = db.create_collection("c")
    results = c.insert_many([{"_key": "1"}, {"_key": "1"}, {"_key": "2", "n": 2}], return_new=True)
    equal([getattr(result, "error_code", 0) for result in results], [0, 1210, 0])
    equal(results[2]["new"]["n"], 2)
    results = c.update_many([{"_key": "1", "n": 1}, {"_key": "none", "n": 1}])
    equal([getattr(result, "error_code", 0) for result in results], [0, 1202])
    results = c.replace_many([{"_key": "1", "m": 1}, {"_key": "2", "m": 2, "_rev": "other"}], check_rev=True)
    equal([getattr(result, "error_code", 0) for result in results], [0, 1200])
    equal([document["_key"] for document in c.get_many(["1", "2", "none"])], ["1", "2"])
    results = c.delete_many(["1", "none"])
    equal([getattr(result, "error_code", 0) for result in results], [0, 1202])
    c.insert_many([{"_key": f"k{i}", "n": i % 3} for i in range(30)])
    equal(c.count(), 31)
    equal(len(list(c.find({"n": 1}, limit=5))), 5)
    equal(c.update_match({"n": 1}, {"hit": True}), 10)
    equal(c.delete_match({"hit": True}), 10)
    equal(sorted(c.keys())[:1], ["2"])
    equal(len(list(c.all(skip=20))), 1)
    assert c.random()["_key"]
    equal(len(list(c.find_in_range("n", 2, 3))), 11)


def imports(db):
    c = db.create_collection("c")
    result = c.import_bulk([{"_key": "1"}, {"_key": "1"}, {"_key": "2"}], halt_on_error=False)
    equal((result["created"], result["errors"]), (2, 1))
    refused(409, 1210, c.import_bulk, [{"_key": "3"}, {"_key": "1"}], halt_on_error=True)
    assert not c.has("3")
    result = c.import_bulk([{"_key": "1", "n": 1}, {"_key": "4"}], on_duplicate="update")
    equal((result["created"], result["updated"]), (1, 1))
    result = c.import_bulk([{"_key": "1"}], on_duplicate="ignore", details=True)
    equal((result["ignored"], result["details"]), (1, []))
    result = c.import_bulk([{"_key": "9"}], overwrite=True)
    equal(c.count(), 1)
    links = db.create_collection("links", edge=True)
    result = links.import_bulk([{"_from": "1", "_to": "2"}], from_prefix="c", to_prefix="c")
    equal(result["created"], 1)
    equal(next(links.all())["_from"], "c/1")
    result = links.import_bulk([{"_from": "c/1"}], halt_on_error=False, details=True)
    assert "missing '_from' or '_to'" in result["details"][0], result


def indexes(db):
    c = db.create_collection("c")
    equal([index["type"] for index in c.indexes()], ["primary"])
    unique = c.add_index({"type": "persistent", "fields": ["email"], "unique": True, "sparse": True, "name": "mail"})
    equal((unique["unique"], unique["sparse"], unique["name"]), (True, True, "mail"))
    equal(c.add_index({"type": "persistent", "fields": ["email"], "unique": True, "sparse": True})["id"], unique["id"])
    c.insert({"email": "a@b"})
    refused(409, 1210, c.insert, {"email": "a@b"})
    c.insert_many([{}, {}])
    refused(400, 10, c.add_index, {"type": "persistent", "fields": []})
    refused(400, 10, c.add_index, {"type": "magic", "fields": ["a"]})
    refused(400, 10, c.add_index, {"type": "geo", "fields": ["a", "b", "c"]})
    ttl = c.add_index({"type": "ttl", "fields": ["at"], "expireAfter": 60})
    equal(ttl["expireAfter"], 60)
    for body in [
        {"type": "geo", "fields": ["at"], "geoJson": True},
        {"type": "fulltext", "fields": ["text"]},
        {"type": "inverted", "fields": ["text"]},
        {"type": "mdi", "fields": ["x", "y"], "fieldValueTypes": "double", "sparse": True},
    ]:
        equal(c.add_index(body)["type"], body["type"])
    refused(400, 1561, c.insert, {"x": "one", "y": 1})
    equal(c.get_index(unique["id"].split("/")[1] if "/" in unique["id"] else unique["id"])["name"], "mail")
    assert c.delete_index(unique["id"])
    refused(404, 1212, c.delete_index, unique["id"])
    c.insert({"email": "a@b"})


def queries(db):
    c = db.create_collection("c")
    c.insert_many([{"_key": str(i), "n": i, "g": i % 2} for i in range(10)])
    run = db.aql.execute
    equal(list(run("FOR d IN @@c FILTER d.n >= @n SORT d.n RETURN d.n", bind_vars={"@c": "c", "n": 7})), [7, 8, 9])
    equal(list(run("FOR d IN c COLLECT g = d.g WITH COUNT INTO n SORT g RETURN [g, n]")), [[0, 5], [1, 5]])
    cursor = run("FOR d IN c SORT d.n LIMIT 2 RETURN d.n", full_count=True, count=True)
    equal(cursor.statistics()["fullCount"], 10)
    cursor = run("FOR d IN c UPDATE d WITH { seen: true } IN c RETURN OLD.n")
    equal(cursor.statistics()["modified"], 10)
    equal(list(run("UPSERT { _key: 'u' } INSERT { _key: 'u', n: 1 } UPDATE { n: 2 } IN c RETURN NEW.n")), [1])
    equal(list(run("UPSERT { _key: 'u' } INSERT { _key: 'u', n: 1 } UPDATE { n: 2 } IN c RETURN NEW.n")), [2])
    refused(400, 1501, run, "FOR d IN")
    refused(400, 1551, run, "RETURN @x")
    refused(400, 1552, run, "RETURN 1", bind_vars={"x": 1})
    refused(404, 1203, run, "FOR d IN nowhere RETURN d")
    refused(400, 1540, run, "RETURN NOSUCH(1)")
    refused(400, 1541, run, "RETURN LENGTH()")
    refused(400, 1579, run, "FOR d IN c REMOVE d IN c FOR e IN c RETURN e")
    refused(409, 1210, run, "INSERT { _key: '1' } INTO c")
    refused(404, 1202, run, "REMOVE 'nobody' IN c")
    refused(410, 1500, run, "RETURN SLEEP(20)", max_runtime=0.05)
    refused(500, 32, run, "FOR i IN 1..100000 RETURN CONCAT('text ', i)", memory_limit=65536)
    refused(400, 1562, run, "RETURN 1 / 0", fail_on_warning=True)
    cursor = run("RETURN 1 / 0")
    equal((list(cursor), [w["code"] for w in cursor.warnings()]), ([None], [1562]))
    plan = db.aql.explain("FOR d IN c FILTER d._key == '1' RETURN d")
    assert "IndexNode" in [node["type"] for node in plan["nodes"]], plan
    equal(db.aql.validate("FOR d IN c RETURN @x")["bind_vars"], ["x"])
    refused(400, 1501, db.aql.validate, "FOR")
    equal(db.aql.queries(), [])
    db.aql.set_tracking(slow_query_threshold=0)
    run("RETURN 'slow'")
    assert any("slow" in query["query"] for query in db.aql.slow_queries())
    assert db.aql.clear_slow_queries()
    refused(404, 1591, db.aql.kill, "123")


def cursors(db):
    run = db.aql.execute
    cursor = run("FOR i IN 1..5 RETURN i", batch_size=2, count=True, ttl=30)
    equal((cursor.count(), cursor.has_more(), list(cursor.batch())), (5, True, [1, 2]))
    equal(list(cursor), [1, 2, 3, 4, 5])
    assert not cursor.has_more()
    cursor = run("FOR i IN 1..5 RETURN i", batch_size=2)
    assert cursor.close()
    refused(404, 1600, cursor.fetch)
    assert not cursor.close(ignore_missing=True)
    cursor = run("FOR i IN 1..3 RETURN i", batch_size=1, allow_retry=True)
    equal((cursor.pop(), cursor.fetch()["batch"], cursor.pop()), (1, [2], 2))
    cursor._next_batch_id = "2"  # as if the answer had been lost
    equal((cursor.fetch()["batch"], cursor.pop()), ([2], 2))
    equal((cursor.fetch()["batch"], cursor.pop()), ([3], 3))
    assert cursor.close()


def transactions(db):
    db.create_collection("a")
    db.create_collection("b")
    trx = db.begin_transaction(write="a", read="b")
    trx.collection("a").insert({"_key": "1"})
    equal(trx.collection("a").count(), 1)
    equal(db.collection("a").count(), 0)
    equal(trx.transaction_status(), "running")
    refused(400, 1652, trx.collection("b").insert, {"_key": "1"})
    refused(409, 1210, trx.collection("a").insert, {"_key": "1"})
    assert trx.commit_transaction()
    equal(trx.transaction_status(), "committed")
    equal(db.collection("a").count(), 1)
    first, second = db.begin_transaction(write="a"), db.begin_transaction(write="a")
    first.collection("a").update({"_key": "1", "n": 1})
    refused(409, 1200, second.collection("a").update, {"_key": "1", "n": 2})
    assert first.commit_transaction() and second.abort_transaction()
    refused(400, 1653, second.commit_transaction)
    equal(db.collection("a").get("1")["n"], 1)
    trx = db.begin_transaction(exclusive="a")
    trx.aql.execute("FOR d IN a REMOVE d IN a")
    equal(list(trx.aql.execute("RETURN LENGTH(a)")), [0])
    assert trx.abort_transaction()
    equal(db.collection("a").count(), 1)
    refused(404, 1203, db.begin_transaction, write="nowhere")
    equal(db.list_transactions(), [])
    gone = db.fetch_transaction(trx.transaction_id)
    equal(gone.transaction_status(), "aborted")


def graphs(db):
    graph = db.create_graph("g", edge_definitions=[
        {"edge_collection": "knows", "from_vertex_collections": ["people"], "to_vertex_collections": ["people"]},
    ], orphan_collections=["alone"])
    refused(409, 1925, db.create_graph, "g")
    equal(sorted(graph.vertex_collections()), ["alone", "people"])
    people, knows = graph.vertex_collection("people"), graph.edge_collection("knows")
    for key in "abc":
        people.insert({"_key": key})
    knows.insert({"_key": "ab", "_from": "people/a", "_to": "people/b"})
    knows.link("people/b", "people/c", data={"_key": "bc"})
    refused(400, 1233, knows.insert, {"_from": "people", "_to": "people/b"})
    refused(404, 1202, knows.insert, {"_from": "people/a", "_to": "people/nobody"})
    equal(list(db.aql.execute("FOR v, e, p IN 1..2 OUTBOUND 'people/a' GRAPH 'g' RETURN [v._key, LENGTH(p.edges)]")), [["b", 1], ["c", 2]])
    equal(sorted(edge["_key"] for edge in knows.edges("people/b")["edges"]), ["ab", "bc"])
    people.update({"_key": "a", "n": 1})
    refused(404, 1202, people.update, {"_key": "nobody"})
    assert people.delete("b")
    equal(knows.count(), 0)
    refused(500, 1942, db.delete_collection, "people")
    refused(404, 1924, db.graph("nowhere").properties)
    graph.create_edge_definition("likes", ["people"], ["things"])
    assert graph.has_edge_definition("likes")
    graph.delete_edge_definition("likes", purge=True)
    assert not db.has_collection("likes")
    assert graph.delete_vertex_collection("alone")
    assert db.delete_graph("g", drop_collections=True)
    refused(404, 1924, db.delete_graph, "g")
    assert not db.has_collection("people")


def views(db):
    texts = db.create_collection("texts")
    texts.insert_many([{"_key": "1", "t": "A quick brown fox"}, {"_key": "2", "t": "Lazy dogs sleep"}])
    view = db.create_arangosearch_view("v", {"links": {"texts": {"fields": {"t": {"analyzers": ["text_en"]}}}}})
    equal(view["type"], "arangosearch")
    refused(409, 1207, db.create_arangosearch_view, "v")
    found = "FOR d IN v SEARCH ANALYZER(d.t IN TOKENS(@q, 'text_en'), 'text_en') SORT BM25(d) DESC RETURN d._key"
    ask = lambda word: list(db.aql.execute(found, bind_vars={"q": word}))
    equal(ask("FOXES"), ["1"])
    equal(ask("sleeping dog"), ["2"])
    equal(ask(""), [])
    texts.insert({"_key": "3", "t": "Another fox"})
    eventually(lambda: sorted(ask("fox")), ["1", "3"])
    equal(db.update_arangosearch_view("v", {"cleanupIntervalStep": 3})["cleanup_interval_step"], 3)
    equal([v["name"] for v in db.views()], ["v"])
    refused(404, 1203, db.view, "nowhere")
    assert db.create_analyzer("words", "text", {"locale": "en", "stopwords": [], "stemming": False}, ["frequency"])
    equal(list(db.aql.execute("RETURN TOKENS('Running Dogs', 'words')")), [["running", "dogs"]])
    assert db.delete_analyzer("words")
    assert db.delete_view("v")
    refused(404, 1203, db.delete_view, "v")


def jobs(db):
    db.create_collection("c")
    later = db.begin_async_execution(return_result=True)
    job = later.aql.execute("RETURN SLEEP(0.3)")
    equal(job.status(), "pending")
    equal(db.async_jobs("pending"), [job.id])
    eventually(job.status, "done")
    equal(list(job.result()), [None])
    refused(404, 404, job.status)
    job = later.collection("c").insert({"_key": "1"})
    eventually(job.status, "done")
    equal(job.result()["_key"], "1")
    job = later.aql.execute("NO QUERY")
    eventually(job.status, "done")
    refused(400, 1501, job.result)
    job = later.aql.execute("RETURN SLEEP(60)")
    eventually(lambda: len(db.aql.queries()), 1)
    assert job.cancel()
    eventually(job.status, "done")
    refused(410, 1500, job.result)
    assert db.clear_async_jobs()
    equal(db.async_jobs("done"), [])


def users(db):
    SYSTEM.delete_user("reader", ignore_missing=True)
    SYSTEM.create_user("reader", "pw", extra={"a": 1})
    refused(409, 1702, SYSTEM.create_user, "reader", "pw")
    refused(404, 1703, SYSTEM.user, "nobody")
    equal(SYSTEM.update_user("reader", extra={"b": 2})["extra"], {"a": 1, "b": 2})
    db.create_collection("c").insert({"_key": "1"})
    reader = CLIENT.db("users", "reader", "pw")
    refused(401, 11, reader.collections)
    SYSTEM.update_permission("reader", "ro", "users")
    refused(403, 11, reader.collection("c").get, "1")
    SYSTEM.update_permission("reader", "ro", "users", "*")
    equal(reader.collection("c").get("1")["_key"], "1")
    refused(403, 11, reader.collection("c").insert, {})
    refused(403, 11, reader.aql.execute, "INSERT {} INTO c")
    refused(403, 11, reader.create_collection, "mine")
    refused(403, 11, reader.collection("c").import_bulk, [{}])
    SYSTEM.update_permission("reader", "rw", "users", "c")
    reader.collection("c").insert({"_key": "2"})
    refused(403, 11, reader.collection("c").add_index, {"type": "persistent", "fields": ["a"]})
    equal(SYSTEM.permission("reader", "users"), "ro")
    equal(SYSTEM.permission("reader", "users", "c"), "rw")
    equal(SYSTEM.permission("reader", "users", "other"), "ro")
    equal(SYSTEM.permissions("reader")["users"]["collections"]["c"], "rw")
    SYSTEM.reset_permission("reader", "users", "c")
    refused(403, 11, reader.collection("c").insert, {})
    refused(401, 11, CLIENT.db("nowhere", "reader", "pw").collections)
    refused(403, 11, CLIENT.db("users", "reader", "pw").users)
    refused(401, 11, CLIENT.db("users", "reader", "wrong").collections)
    token = reader.create_access_token("reader", "job", int(time.time()) + 600)
    assert token["token"].startswith("v1.") and token["active"]
    refused(409, 1207, reader.create_access_token, "reader", "job", int(time.time()) + 600)
    by_token = CLIENT.db("users", "reader", token["token"])
    equal(by_token.collection("c").count(), 2)
    equal([t["name"] for t in by_token.list_access_tokens("reader")], ["job"])
    refused(403, 11, by_token.list_access_tokens, "root")
    assert reader.delete_access_token("reader", token["id"]) is None
    refused(401, 11, by_token.collection("c").count)
    jwt = CLIENT.db("users", "reader", "pw", auth_method="jwt")
    equal(jwt.collection("c").count(), 2)
    SYSTEM.replace_user("reader", "new", active=False)
    refused(401, 11, CLIENT.db("users", "reader", "new").collections)
    assert SYSTEM.delete_user("reader")
    refused(404, 1703, SYSTEM.delete_user, "reader")
    refused(403, 11, SYSTEM.update_permission, "root", "none", "_system")


SCENARIOS = [
    server, databases, collections, computed_values, documents, many_documents, imports, indexes, queries, cursors,
    transactions, graphs, views, jobs, users,
]


def main():
    failed = []
    for scenario in SCENARIOS:
        name = scenario.__name__
        if WANTED not in name:
            continue
        SYSTEM.create_database(name)
        try:
            scenario(CLIENT.db(name, "root", PASSWORD))
            print(f"passed {name}")
        except Exception:
            failed.append(name)
            print(f"FAILED {name}\n{traceback.format_exc()}")
        SYSTEM.delete_database(name)
    print(f"{len(failed)} failed")
    sys.exit(1 if failed else 0)


main()
