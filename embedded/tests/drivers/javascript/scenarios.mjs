// Typical uses of arangojs by an application, over a Unix socket; every scenario asserts statuses
// and error numbers. Usage: node scenarios.mjs SOCKET ROOT_PASSWORD [PART OF A NAME]. Node resolves
// the packages from the working directory.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [socket, password, wanted = ""] = process.argv.slice(2);
const resolve = createRequire(path.join(process.cwd(), "package.json")).resolve;
const { Database, aql } = await import(pathToFileURL(resolve("arangojs")));

const url = `unix://${path.resolve(socket)}`;
const connect = (databaseName, username = "root", secret = password) =>
  new Database({ url, databaseName, auth: { username, password: secret } });
const system = connect("_system");

/** The call fails with that HTTP status and that errorNum. */
async function refused(code, errorNum, call) {
  let answer;
  try {
    answer = await call();
  } catch (error) {
    assert.deepEqual([error.code, error.errorNum], [code, errorNum], error.stack);
    return error;
  }
  assert.fail(`expected ${code}/${errorNum}, got ${JSON.stringify(answer)}`);
}

const all = async (cursor) => (await cursor).all();
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Views follow a moment later. */
async function eventually(ask, expected, seconds = 20) {
  for (let tries = 0; ; tries++) {
    const found = await ask();
    try {
      return assert.deepEqual(found, expected);
    } catch (error) {
      if (tries > seconds * 20) throw error;
    }
    await pause(50);
  }
}

const scenarios = {
  async server(db) {
    const version = await db.version(true);
    assert.equal(version.server, "arango");
    assert.equal(version.details.role, "SINGLE");
    assert.equal((await db.engine()).name, "rocksdb");
    assert.ok(await db.time());
    assert.equal(await db.availability(), "default");
    assert.equal((await db.supportInfo?.().catch((error) => error.errorNum)) ?? 1230, 1230);
    assert.equal((await system.supportInfo()).deployment.type, "single");
    assert.equal((await db.get()).name, "server");
    await refused(404, 404, () => db.route("/_api/nothing").get());
    await refused(501, 9, () => db.listUserFunctions());
  },

  async databases(db) {
    const name = "Datenbänke 😀";
    const made = await system.createDatabase(name);
    assert.ok((await system.listDatabases()).includes(name));
    assert.ok(await made.exists());
    await refused(409, 1207, () => system.createDatabase(name));
    await refused(400, 1229, () => system.createDatabase("a/b"));
    await refused(403, 1230, () => db.createDatabase("nested"));
    await system.dropDatabase(name);
    await refused(404, 1228, () => system.dropDatabase(name));
    assert.ok(!(await made.exists()));
  },

  async collections(db) {
    const rule = { properties: { n: { type: "number" } } };
    const things = await db.createCollection("things", {
      waitForSync: true,
      schema: { rule, level: "strict", message: "n is a number" },
    });
    await refused(409, 1207, () => db.createCollection("things"));
    await refused(400, 1208, () => db.createCollection("no/name"));
    await refused(404, 1203, () => db.collection("nowhere").properties());
    const error = await refused(400, 1620, () => things.save({ n: "one" }));
    assert.equal(error.errorMessage, "n is a number");
    assert.equal((await things.properties({ waitForSync: false, schema: null })).waitForSync, false);
    await things.save({ _key: "a", n: "one" });
    assert.equal((await things.count()).count, 1);
    assert.ok((await things.revision()).revision !== "0");
    assert.ok((await things.checksum({ withData: true })).checksum);
    assert.equal((await things.figures()).figures.indexes.count, 1);
    await things.recalculateCount();
    await things.loadIndexes();
    await things.rename("renamed");
    assert.ok(await db.collection("renamed").exists());
    await db.collection("renamed").truncate();
    assert.equal((await db.collection("renamed").count()).count, 0);
    const numbers = await db.createCollection("numbers", {
      keyOptions: { type: "autoincrement", increment: 5, offset: 10 },
    });
    for (const key of ["10", "15", "20"]) assert.equal((await numbers.save({}))._key, key);
    const closed = await db.createCollection("closed", { keyOptions: { allowUserKeys: false } });
    await refused(400, 1222, () => closed.save({ _key: "mine" }));
    assert.deepEqual((await db.listCollections()).map((c) => c.name).sort(), ["closed", "numbers", "renamed"]);
    await db.collection("renamed").drop();
    await refused(404, 1203, () => db.collection("renamed").drop());
  },

  async computedValues(db) {
    const value = { name: "full", expression: "RETURN UPPER(@doc.name)", overwrite: true };
    const c = await db.createCollection("c", { computedValues: [value] });
    assert.equal((await c.save({ _key: "1", name: "a" }, { returnNew: true })).new.full, "A");
    assert.equal((await c.update("1", { name: "b" }, { returnNew: true })).new.full, "B");
    const wrong = { ...value, expression: "RETURN @other" };
    await refused(400, 10, () => db.createCollection("d", { computedValues: [wrong] }));
    const shown = (await c.properties()).computedValues[0];
    assert.deepEqual(shown.computeOn, ["insert", "update", "replace"]);
  },

  async documents(db) {
    const c = await db.createCollection("c");
    const meta = await c.save({ _key: "a", n: 1, deep: { x: 1, y: 2 } });
    assert.equal(meta._id, "c/a");
    await refused(409, 1210, () => c.save({ _key: "a" }));
    await refused(400, 1221, () => c.save({ _key: "a/b" }));
    await refused(404, 1202, () => c.document("nobody"));
    assert.equal(await c.document("nobody", { graceful: true }), null);
    assert.ok(await c.documentExists("a"));
    const changed = await c.update("a", { deep: { y: 3 }, gone: null }, { keepNull: false, returnNew: true, returnOld: true });
    assert.deepEqual([changed.new.deep, changed.old.deep], [{ x: 1, y: 3 }, { x: 1, y: 2 }]);
    assert.ok(!("gone" in changed.new));
    await refused(412, 1200, () => c.replace("a", { n: 2 }, { ifMatch: meta._rev }));
    await refused(412, 1200, () => c.document("a", { ifMatch: meta._rev }));
    await refused(304, undefined, () => c.document("a", { ifNoneMatch: changed._rev }));
    assert.equal((await c.replace("a", { n: 2 }, { returnNew: true })).new.n, 2);
    assert.equal((await c.save({ _key: "a", n: 3 }, { overwriteMode: "update", returnNew: true })).new.n, 3);
    await refused(404, 1202, () => c.remove("nobody"));
    for (const key of ["a:b", "50%", "(1)", "x=y;z", "@me", "it's"]) {
      await c.save({ _key: key });
      assert.equal((await c.document(key))._key, key);
      await c.remove(key);
    }
    assert.equal((await c.remove("a", { returnOld: true })).old.n, 3);
    const many = await c.saveAll([{ _key: "1" }, { _key: "1" }, { _key: "2" }]);
    assert.deepEqual(many.map((m) => m.errorNum ?? 0), [0, 1210, 0]);
    const updated = await c.updateAll([{ _key: "1", n: 1 }, { _key: "none", n: 1 }]);
    assert.deepEqual(updated.map((m) => m.errorNum ?? 0), [0, 1202]);
    const found = await c.documents(["1", "none"]);
    assert.deepEqual(found.map((m) => m.errorNum ?? m._key), ["1", 1202]);
    const removed = await c.removeAll(["1", "none"]);
    assert.deepEqual(removed.map((m) => m.errorNum ?? 0), [0, 1202]);
  },

  async imports(db) {
    const c = await db.createCollection("c");
    const table = await c.import([["_key", "n"], ["1", 1], ["2", 2]]);
    assert.deepEqual([table.created, table.errors], [2, 0]);
    const lines = await c.import('{"_key":"3"}\n\n{"_key":"3"}\nno JSON\n', { type: "documents", details: true });
    assert.deepEqual([lines.created, lines.errors, lines.empty], [1, 2, 1]);
    assert.match(lines.details[0], /^at position 4: invalid JSON type/);
    await refused(409, 1210, () => c.import([{ _key: "4" }, { _key: "1" }], { complete: true }));
    assert.ok(!(await c.documentExists("4")));
    const again = await c.import([{ _key: "1", m: 1 }, { _key: "5" }], { onDuplicate: "replace" });
    assert.deepEqual([again.created, again.updated], [1, 1]);
    const links = await db.createEdgeCollection("links");
    const edges = await links.import([{ _from: "1", _to: "2" }], { fromPrefix: "c", toPrefix: "c/" });
    assert.equal(edges.created, 1);
    await refused(404, 1203, () => db.collection("nowhere").import([{}]));
  },

  async indexes(db) {
    const c = await db.createCollection("c");
    assert.deepEqual((await c.indexes()).map((i) => i.type), ["primary"]);
    const body = { type: "persistent", fields: ["email"], unique: true, sparse: true };
    const unique = await c.ensureIndex({ ...body, name: "mail" });
    assert.equal(unique.isNewlyCreated, true);
    assert.equal((await c.ensureIndex(body)).isNewlyCreated, false);
    await c.save({ email: "a@b" });
    await refused(409, 1210, () => c.save({ email: "a@b" }));
    await refused(400, 10, () => c.ensureIndex({ type: "persistent", fields: [] }));
    await refused(400, 10, () => c.ensureIndex({ type: "mdi", fields: ["x"], fieldValueTypes: "int" }));
    assert.equal((await c.ensureIndex({ type: "ttl", fields: ["at"], expireAfter: 60 })).expireAfter, 60);
    assert.equal((await c.ensureIndex({ type: "geo", fields: ["at"], geoJson: true })).geoJson, true);
    assert.equal((await c.index("mail")).id, unique.id);
    await c.dropIndex(unique);
    await refused(404, 1212, () => c.dropIndex(unique));
  },

  async queries(db) {
    const c = await db.createCollection("c");
    await c.saveAll(Array.from({ length: 10 }, (_, n) => ({ _key: `${n}`, n, g: n % 2 })));
    const least = 7;
    assert.deepEqual(await all(db.query(aql`FOR d IN ${c} FILTER d.n >= ${least} SORT d.n RETURN d.n`)), [7, 8, 9]);
    const cursor = await db.query("FOR d IN c SORT d.n LIMIT 2 RETURN d.n", {}, { count: true, fullCount: true });
    assert.deepEqual([cursor.count, cursor.extra.stats.fullCount], [2, 10]);
    await refused(400, 1501, () => db.query("FOR d IN"));
    await refused(400, 1551, () => db.query("RETURN @x"));
    await refused(400, 1552, () => db.query("RETURN 1", { x: 1 }));
    await refused(404, 1203, () => db.query("FOR d IN nowhere RETURN d"));
    await refused(400, 1540, () => db.query("RETURN NOSUCH(1)"));
    await refused(400, 1579, () => db.query("FOR d IN c REMOVE d IN c FOR e IN c RETURN e"));
    await refused(409, 1210, () => db.query("INSERT { _key: '1' } INTO c"));
    await refused(410, 1500, () => db.query("RETURN SLEEP(20)", {}, { maxRuntime: 0.05 }));
    await refused(400, 1562, () => db.query("RETURN 1 / 0", {}, { failOnWarning: true }));
    const plan = await db.explain("FOR d IN c FILTER d._key == '1' RETURN d");
    assert.ok(plan.plan.nodes.some((node) => node.type === "IndexNode"));
    assert.deepEqual((await db.parse("FOR d IN c RETURN @x")).bindVars, ["x"]);
    const slept = db.query("RETURN SLEEP(60)");
    const outcome = refused(410, 1500, () => slept);
    await eventually(async () => (await db.listRunningQueries()).length, 1);
    await db.killQuery((await db.listRunningQueries())[0].id);
    await outcome;
    await refused(404, 1591, () => db.killQuery("123"));
    await db.queryTracking({ slowQueryThreshold: 0 });
    await db.query("RETURN 'slow'");
    assert.ok((await db.listSlowQueries()).some((query) => query.query === "RETURN 'slow'"));
    await db.clearSlowQueries();
  },

  async cursors(db) {
    const cursor = await db.query("FOR i IN 1..5 RETURN i", {}, { batchSize: 2, count: true });
    assert.equal(cursor.count, 5);
    assert.ok(cursor.batches.hasMore);
    assert.deepEqual(await cursor.map((i) => i * 2), [2, 4, 6, 8, 10]);
    const killed = await db.query("FOR i IN 1..5 RETURN i", {}, { batchSize: 2 });
    await killed.kill();
    await refused(404, 1600, () => db.route(`/_api/cursor/${1}`).post());
    const streamed = await db.query("FOR i IN 1..5 RETURN i", {}, { batchSize: 2, count: true, stream: true });
    assert.equal(streamed.count, undefined);
    assert.deepEqual(await streamed.all(), [1, 2, 3, 4, 5]);
    const retried = await db.query("FOR i IN 1..3 RETURN i", {}, { batchSize: 1, allowRetry: true });
    assert.deepEqual(await retried.all(), [1, 2, 3]);
  },

  async transactions(db) {
    const a = await db.createCollection("a");
    const b = await db.createCollection("b");
    const trx = await db.beginTransaction({ write: a, read: b });
    await trx.step(() => a.save({ _key: "1" }));
    assert.equal((await trx.step(() => a.count())).count, 1);
    assert.equal((await a.count()).count, 0);
    await refused(400, 1652, () => trx.step(() => b.save({ _key: "1" })));
    assert.equal((await trx.get()).status, "running");
    assert.equal((await trx.commit()).status, "committed");
    assert.equal((await a.count()).count, 1);
    const first = await db.beginTransaction({ write: a });
    const second = await db.beginTransaction({ write: a });
    await first.step(() => a.update("1", { n: 1 }));
    await refused(409, 1200, () => second.step(() => a.update("1", { n: 2 })));
    await first.commit();
    await second.abort();
    await refused(400, 1653, () => second.commit());
    await db.withTransaction({ exclusive: a }, async (step) => {
      await step(() => db.query("FOR d IN a REMOVE d IN a"));
    });
    assert.equal((await a.count()).count, 0);
    await refused(404, 1203, () => db.beginTransaction({ write: "nowhere" }));
    await refused(501, 9, () => db.executeTransaction([], "function () {}"));
    assert.deepEqual(await db.listTransactions(), []);
  },

  async graphs(db) {
    const graph = await db.createGraph("g", [{ collection: "links", from: ["nodes"], to: ["nodes"] }]);
    await refused(409, 1925, () => db.createGraph("g", []));
    const nodes = graph.vertexCollection("nodes");
    const links = graph.edgeCollection("links");
    for (const key of "abc") await nodes.save({ _key: key });
    await links.save({ _key: "ab", _from: "nodes/a", _to: "nodes/b" });
    await links.save({ _key: "bc", _from: "nodes/b", _to: "nodes/c" });
    await refused(404, 1202, () => links.save({ _from: "nodes/a", _to: "nodes/nobody" }));
    const reached = "FOR v IN 1..2 OUTBOUND 'nodes/a' GRAPH 'g' RETURN v._key";
    assert.deepEqual(await all(db.query(reached)), ["b", "c"]);
    const plain = db.collection("links");
    const [into, out] = [await plain.inEdges("nodes/b"), await plain.outEdges("nodes/b")];
    assert.deepEqual([into.edges[0]._key, out.edges[0]._key], ["ab", "bc"]);
    // The method `edges` of arangojs 10.4.0 sends the direction "undefined", which arangod refuses
    // too.
    await refused(400, 400, () => plain.edges("nodes/b"));
    await nodes.remove("b");
    assert.equal((await db.collection("links").count()).count, 0);
    await refused(500, 1942, () => db.collection("nodes").drop());
    await refused(404, 1924, () => db.graph("nowhere").get());
    await graph.addEdgeDefinition({ collection: "likes", from: ["nodes"], to: ["things"] });
    assert.deepEqual((await graph.listEdgeCollections()).sort(), ["likes", "links"]);
    await graph.removeEdgeDefinition("likes", true);
    await graph.drop(true);
    assert.ok(!(await db.collection("nodes").exists()));
  },

  async views(db) {
    const texts = await db.createCollection("texts");
    await texts.saveAll([{ _key: "1", t: "A quick brown fox" }, { _key: "2", t: "Lazy dogs sleep" }]);
    const view = await db.createView("v", {
      type: "arangosearch",
      links: { texts: { fields: { t: { analyzers: ["text_en"] } } } },
    });
    await refused(409, 1207, () => db.createView("v", { type: "arangosearch" }));
    const ask = (word) =>
      all(db.query(aql`FOR d IN v SEARCH ANALYZER(d.t IN TOKENS(${word}, "text_en"), "text_en")
        SORT BM25(d) DESC RETURN d._key`));
    assert.deepEqual(await ask("FOXES"), ["1"]);
    await texts.save({ _key: "3", t: "Another fox" });
    await eventually(async () => (await ask("fox")).sort(), ["1", "3"]);
    assert.equal((await view.updateProperties({ cleanupIntervalStep: 3 })).cleanupIntervalStep, 3);
    await refused(404, 1203, () => db.view("nowhere").get());
    const analyzer = await db.createAnalyzer("words", {
      type: "text",
      properties: { locale: "en", stopwords: [], stemming: false },
      features: ["frequency"],
    });
    assert.deepEqual(await all(db.query("RETURN TOKENS('Running Dogs', 'words')")), [["running", "dogs"]]);
    await analyzer.drop();
    await view.drop();
    assert.ok(!(await view.exists()));
  },

  async users(db) {
    await system.removeUser("visitor").catch((error) => assert.equal(error.errorNum, 1703));
    await system.createUser("visitor", { passwd: "pw", extra: { a: 1 } });
    await refused(409, 1702, () => system.createUser("visitor", "pw"));
    await refused(404, 1703, () => system.getUser("nobody"));
    await (await db.createCollection("c")).save({ _key: "1" });
    const visitor = connect("users", "visitor", "pw");
    const c = visitor.collection("c");
    await refused(401, 11, () => visitor.collections());
    await system.setUserAccessLevel("visitor", { database: "users" }, "ro");
    await refused(403, 11, () => c.document("1"));
    await system.setUserAccessLevel("visitor", { database: "users", collection: "c" }, "ro");
    assert.equal((await c.document("1"))._key, "1");
    await refused(403, 11, () => c.save({}));
    await refused(403, 11, () => visitor.query("INSERT {} INTO c"));
    await refused(403, 11, () => visitor.createCollection("mine"));
    assert.equal(await system.getUserAccessLevel("visitor", { database: "users", collection: "c" }), "ro");
    await system.clearUserAccessLevel("visitor", { database: "users", collection: "c" });
    await refused(403, 11, () => c.document("1"));
    await refused(401, 11, () => connect("nowhere", "visitor", "pw").collections());
    await refused(401, 11, () => connect("users", "visitor", "wrong").collections());
    await refused(403, 11, () => visitor.createUser("other", "pw"));
    const byToken = connect("users");
    assert.ok(await byToken.login("visitor", "pw"));
    assert.equal((await byToken.get()).name, "users");
    const token = await system.createAccessToken("visitor", { name: "job" });
    assert.match(token.token, /^v1\./);
    await refused(409, 1207, () => system.createAccessToken("visitor", { name: "job" }));
    assert.equal((await connect("users", "", token.token).get()).name, "users");
    await system.deleteAccessToken("visitor", token.id);
    await refused(401, 11, () => connect("users", "", token.token).get());
    await system.removeUser("visitor");
  },
};

const failed = [];
for (const [name, scenario] of Object.entries(scenarios)) {
  if (!name.includes(wanted)) continue;
  await system.createDatabase(name);
  try {
    await scenario(connect(name));
    console.log(`passed ${name}`);
  } catch (error) {
    failed.push(name);
    console.log(`FAILED ${name}\n${error.stack}`);
  }
  await system.dropDatabase(name);
}
console.log(`${failed.length} failed`);
process.exit(failed.length ? 1 : 0);
