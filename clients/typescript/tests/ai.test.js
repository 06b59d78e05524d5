/** The Vercel AI SDK with the real server as its memory: its own mock models, and a model over HTTP. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import http from "node:http";
import { Readable } from "node:stream";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Client } from "../src/index.js";
import { skipWithout } from "./packages.js";
import { server } from "./server.js";

const skip = skipWithout("ai") || skipWithout("@ai-sdk/openai-compatible");
const load = (name) => (skip ? {} : import(name));
const ai = await load("ai");
const mocks = await load("ai/test");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { loadMessages, saveMessages, vctxMemory, vctxTools } = await load("../src/ai/index.js");

const MockModel = mocks.MockLanguageModelV4 ?? mocks.MockLanguageModelV3;
const USAGE = {
  inputTokens: { total: 10, noCache: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: 5, reasoning: undefined },
};

const text = (said) => ({ type: "text", text: said });
const call = (toolCallId, toolName, input) => ({ type: "tool-call", toolCallId, toolName, input: JSON.stringify(input) });
const user = (id, said) => ({ id, role: "user", parts: [text(said)] });
const finish = (content) => ({ unified: content.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop", raw: undefined });

/** The parts of a stream with this content. */
function streamed(content) {
  const parts = content.flatMap((part, at) => {
    if (part.type !== "text") return [part];
    const id = String(at);
    return [{ type: "text-start", id }, ...part.text.split(/(?<= )/).map((delta) => ({ type: "text-delta", id, delta })), { type: "text-end", id }];
  });
  return [{ type: "stream-start", warnings: [] }, ...parts, { type: "finish", finishReason: finish(content), usage: USAGE }];
}

/** A model that gives these answers in turn; an error is thrown. */
function scripted(...answers) {
  let at = 0;
  const next = () => {
    const answer = answers[at];
    at += 1;
    if (answer instanceof Error) throw answer;
    return typeof answer === "string" ? [text(answer)] : answer;
  };
  return new MockModel({
    doGenerate: async () => {
      const content = next();
      return { content, finishReason: finish(content), usage: USAGE, warnings: [] };
    },
    doStream: async () => ({ stream: ai.simulateReadableStream({ chunks: streamed(next()), initialDelayInMs: null, chunkDelayInMs: null }) }),
  });
}

const sentTo = (model) => [...model.doGenerateCalls, ...model.doStreamCalls].map(({ prompt }) => prompt);
const plain = (prompt) => prompt.map(({ role, content }) => `${role}: ${typeof content === "string" ? content : content.map((part) => part.text ?? part.type).join("")}`);

/** A failure that the SDK answers with a repetition, immediately. */
function busy() {
  const responseHeaders = { "retry-after-ms": "1" };
  return new ai.APICallError({ message: "busy", url: "http://model", requestBodyValues: {}, statusCode: 503, responseHeaders, isRetryable: true });
}

describe("the Vercel AI SDK", { skip }, () => {
  let running;
  let client;
  let made = 0;

  before(async () => {
    running = await server();
    client = new Client(running.socket);
  });

  after(async () => {
    client.close();
    await running.stop();
  });

  const newAgent = (more = {}) => client.createAgent(`ai-${(made += 1)}`, { context_window: 8192, system: "You are Ada.", ...more });

  async function log(agent) {
    const rows = [];
    for await (const { role, content } of agent.allMessages()) rows.push(`${role}: ${content}`);
    return rows;
  }

  const withMemory = (agent, model) => ai.wrapLanguageModel({ model, middleware: vctxMemory(agent) });

  test("the tools of the memory work in a loop, and a refusal is text for the model", async () => {
    const agent = await newAgent();
    const tools = await vctxTools(agent);
    assert.deepEqual(Object.keys(tools), ["store_core", "search_recall", "write_recall", "search_archival"]);
    const calls = [call("a", "store_core", { block_id: "boat", content: "At pier 4." }), call("b", "store_core", { block_id: "boat", content: " Blue.", policy: { mode: "append" } })];
    const model = scripted(calls, [call("c", "store_core", { block_id: "boat" })], "Noted.");
    const result = await ai.generateText({ model, tools, prompt: "Note it.", stopWhen: ai.stepCountIs(5) });
    assert.equal(result.text, "Noted.");
    assert.match((await agent.fetchCore("boat")).result.content, /^At pier 4\.\s+Blue\.$/);
    assert.deepEqual(result.steps[0].toolResults.map(({ output }) => output.split("\n")[0]), ["Done.", "Done."]);
    assert.match(result.steps[1].toolResults[0].output, /^Error INVALID_ARGUMENT: .*content/);
    const { inputSchema, description } = tools.store_core;
    assert.deepEqual(ai.asSchema(inputSchema).jsonSchema.required, ["block_id", "content"]);
    assert.match(description, /block/);
  });

  test("other tools are chosen by name or dialect, and a key lets a call take effect once", async () => {
    const agent = await newAgent();
    assert.ok("trace_memory" in (await vctxTools(agent, { names: "all" })));
    assert.deepEqual(Object.keys(await vctxTools(agent, { names: ["fetch_core"] })), ["fetch_core"]);
    assert.ok("memory" in (await vctxTools(agent, { dialect: "anthropic" })));
    await assert.rejects(vctxTools(agent, { names: ["fly"] }), /no tool fly/);
    for (let time = 0; time < 2; time += 1) {
      const { core_memory_append: append } = await vctxTools(agent, { dialect: "memgpt", key: "k" });
      await append.execute({ label: "list", content: "Milk." }, { toolCallId: "c1", messages: [] });
    }
    assert.equal((await agent.fetchCore("list")).result.content, "Milk.");
  });

  test("a failed tool call is its own error and does not stop the next one", async () => {
    const agent = await newAgent();
    const { store_core: store } = await vctxTools(agent);
    const gone = AbortSignal.abort(new Error("gone"));
    const first = store.execute({ block_id: "a", content: "A" }, { toolCallId: "1", messages: [], abortSignal: gone });
    const second = store.execute({ block_id: "b", content: "B" }, { toolCallId: "2", messages: [] });
    await assert.rejects(first, /gone/);
    assert.match(await second, /^Done/);
  });

  for (const [way, ask] of [
    ["generated", async (options) => (await ai.generateText(options)).text],
    ["streamed", async (options) => ai.streamText(options).text],
  ]) {
    test(`a ${way} answer: the window replaces the prompt, and each message is stored once`, async () => {
      const agent = await newAgent();
      await agent.storeCore("human", "Likes tea.");
      const inner = scripted("Hello, Bea!", "At pier 4.");
      const model = withMemory(agent, inner);
      const system = "Be short.";
      assert.equal(await ask({ model, system, prompt: "I am Bea." }), "Hello, Bea!");
      const messages = [{ role: "user", content: "I am Bea." }, { role: "assistant", content: "Hello, Bea!" }, { role: "user", content: "Where is my boat?" }];
      assert.equal(await ask({ model, system, messages }), "At pier 4.");
      assert.deepEqual(await log(agent), ["user: I am Bea.", "assistant: Hello, Bea!", "user: Where is my boat?", "assistant: At pier 4."]);
      const [first, second] = sentTo(inner).map(plain);
      assert.deepEqual(first.slice(0, 2), ["system: Be short.", "system: You are Ada."]);
      assert.match(first.join("\n"), /Likes tea\.[^]*I am Bea\./);
      assert.equal(second.filter((line) => /I am Bea|Hello, Bea!|Where is my boat/.test(line)).length, 3);
    });

    test(`a ${way} answer that the SDK asks for again`, async () => {
      const agent = await newAgent();
      const inner = scripted(busy(), busy(), "Here.");
      assert.equal(await ask({ model: withMemory(agent, inner), prompt: "Hello?" }), "Here.");
      assert.equal(sentTo(inner).length, 3);
      assert.deepEqual(await log(agent), ["user: Hello?", "assistant: Here."]);
    });

    test(`a ${way} answer to a call with a key is asked for once`, async () => {
      const agent = await newAgent();
      const inner = scripted("First.", "Second.");
      const options = { prompt: "Once?", providerOptions: { vctx: { key: `request-${way}` } } };
      for (let time = 0; time < 2; time += 1) assert.equal(await ask({ model: withMemory(agent, inner), ...options }), "First.");
      assert.equal(sentTo(inner).length, 1);
      assert.equal(await ask({ model: withMemory(agent, inner), prompt: "Once?" }), "Second.");
      assert.deepEqual(await log(agent), ["user: Once?", "assistant: First.", "user: Once?", "assistant: Second."]);
    });
  }

  test("a whole loop with a key is repeated without asking the model or the tools again", async () => {
    const agent = await newAgent();
    const inner = scripted([call("w1", "core_memory_append", { label: "list", content: "Milk." })], "Noted.");
    for (let time = 0; time < 2; time += 1) {
      const tools = await vctxTools(agent, { dialect: "memgpt", key: "loop" });
      const options = { tools, prompt: "Add milk.", stopWhen: ai.stepCountIs(3), providerOptions: { vctx: { key: "loop" } } };
      assert.equal((await ai.generateText({ model: withMemory(agent, inner), ...options })).text, "Noted.");
    }
    assert.equal(sentTo(inner).length, 2);
    assert.equal((await agent.fetchCore("list")).result.content, "Milk.");
    assert.deepEqual((await log(agent)).map((line) => line.split(":")[0]), ["user", "assistant", "tool", "assistant"]);
  });

  test("a call that failed is made again without a key", async () => {
    const agent = await newAgent();
    const model = withMemory(agent, scripted(new Error("no power"), "Here."));
    const messages = [{ role: "user", content: "Hello?" }];
    await assert.rejects(ai.generateText({ model, messages }), /no power/);
    assert.equal((await ai.generateText({ model, messages })).text, "Here.");
    assert.deepEqual(await log(agent), ["user: Hello?", "assistant: Here."]);
  });

  test("the history of the first call becomes the memory's", async () => {
    const agent = await newAgent();
    const messages = [{ role: "user", content: "I am Bea." }, { role: "assistant", content: "Hello!" }, { role: "user", content: "Who am I?" }];
    await ai.generateText({ model: withMemory(agent, scripted("Bea.")), messages });
    assert.deepEqual(await log(agent), ["user: I am Bea.", "assistant: Hello!", "user: Who am I?", "assistant: Bea."]);
  });

  test("a loop with the application's tools: calls and results are stored, and the provider's data comes back to the provider", async () => {
    const agent = await newAgent();
    const signed = { anthropic: { signature: "sig" } };
    const thought = { type: "reasoning", text: "Hm.", providerMetadata: signed };
    const inner = scripted([thought, text("Let me look. "), call("w1", "weather", { city: "Kiel" })], "It is 12 degrees.");
    const weather = ai.tool({
      description: "The weather.",
      inputSchema: ai.jsonSchema({ type: "object", properties: { city: { type: "string" } } }),
      execute: async () => ({ degrees: 12 }),
    });
    const { text: said } = await ai.generateText({ model: withMemory(agent, inner), tools: { weather }, prompt: "Weather?", stopWhen: ai.stepCountIs(3) });
    assert.equal(said, "It is 12 degrees.");
    assert.deepEqual(await log(agent), ["user: Weather?", "assistant: Let me look. ", 'tool: {"degrees":12}', "assistant: It is 12 degrees."]);
    const answer = sentTo(inner)[1].find(({ role }) => role === "assistant");
    assert.deepEqual(answer.content.map(({ type }) => type), ["reasoning", "text", "tool-call"]);
    assert.deepEqual(answer.content[0].providerOptions, signed);
    const { content } = sentTo(inner)[1].find(({ role }) => role === "tool");
    assert.deepEqual(content[0].output, { type: "json", value: { degrees: 12 } });
    const later = scripted("Yes.");
    await ai.generateText({ model: withMemory(agent, later), prompt: "Sure?" });
    const parts = sentTo(later)[0].flatMap(({ role, content: all }) => (role === "system" ? [] : all));
    const called = parts.find(({ type }) => type === "tool-call");
    assert.deepEqual([called.toolName, called.input], ["weather", { city: "Kiel" }]);
    const result = parts.find(({ type }) => type === "tool-result");
    assert.deepEqual([result.toolName, result.output], ["weather", { type: "text", value: '{"degrees":12}' }]);
  });

  test("an agent of the SDK streams with tools and memory", async () => {
    const agent = await newAgent();
    const inner = scripted([call("n1", "store_core", { block_id: "boat", content: "At pier 4." })], "Noted.");
    const loop = new ai.ToolLoopAgent({ model: withMemory(agent, inner), tools: await vctxTools(agent) });
    const result = await loop.stream({ prompt: "My boat is at pier 4." });
    assert.equal(await result.text, "Noted.");
    assert.match(plain(sentTo(inner)[1]).join("\n"), /<block id="boat"[^]*At pier 4\./);
    assert.deepEqual((await log(agent)).map((line) => line.split(":")[0]), ["user", "assistant", "tool", "assistant"]);
  });

  test("a strict window has one system message, with the application's text in it", async () => {
    const agent = await newAgent({ form: "strict" });
    await agent.postEvent("system", "Tick.");
    const inner = scripted("Hello.");
    await ai.generateText({ model: withMemory(agent, inner), system: "Be short.", prompt: "Hi." });
    const [prompt] = sentTo(inner);
    assert.deepEqual(prompt.map(({ role }) => role), ["system", "user"]);
    assert.match(prompt[0].content, /^Be short\.\n\nYou are Ada\./);
    assert.match(prompt[1].content[0].text, /Tick\.[^]*Hi\./);
  });

  test("files reach the model, and the memory keeps their names", async () => {
    const agent = await newAgent();
    const inner = scripted("A boat.", "Blue.");
    const model = withMemory(agent, inner);
    const data = new Uint8Array([1, 2, 3]);
    const asked = { role: "user", content: [text("What is this?"), { type: "file", data, mediaType: "image/png", filename: "boat.png" }] };
    await ai.generateText({ model, messages: [asked] });
    await ai.generateText({ model, messages: [asked, { role: "assistant", content: "A boat." }, { role: "user", content: "Which colour?" }] });
    for (const prompt of sentTo(inner)) {
      const carrier = prompt.find(({ content }) => content[1]?.type === "file");
      assert.match(carrier.content[0].text, /What is this\?\n\[file boat\.png\]$/);
      assert.equal(carrier.content[1].mediaType, "image/png");
    }
    assert.equal((await log(agent))[0], "user: What is this?\n[file boat.png]");
  });

  /** A model whose stream says two words and then waits for ever. */
  const stalling = () => {
    const chunks = streamed([text("The boat lies")]).slice(0, 4);
    const stream = new ReadableStream({ start: (controller) => chunks.forEach((chunk) => controller.enqueue(chunk)) });
    return new MockModel({ doStream: async () => ({ stream }) });
  };

  test("a stream that is aborted keeps what was said, marked", async () => {
    const agent = await newAgent();
    const middleware = vctxMemory(agent);
    const abort = new AbortController();
    const model = ai.wrapLanguageModel({ model: stalling(), middleware });
    const result = ai.streamText({ model, prompt: "Where?", abortSignal: abort.signal, onError: () => {} });
    let heard = "";
    for await (const piece of result.textStream) {
      heard += piece;
      if (heard === "The boat ") abort.abort();
    }
    await middleware.settled();
    assert.deepEqual(await log(agent), ["user: Where?", "assistant: The boat ", "system: [The answer above was cut off before its end.]"]);
    const [, answer] = await loadMessages(agent);
    assert.equal(answer.metadata.interrupted, true);
    // The chat may have received less than the memory.
    const chat = [user("u1", "Where?"), { id: "a1", role: "assistant", parts: [text("The ")] }, user("u2", "And now?")];
    assert.equal(await saveMessages(agent, chat), 1);
  });

  test("a chat goes on after a tool call of an answer that was cut off", async () => {
    const agent = await newAgent();
    const middleware = vctxMemory(agent);
    const chunks = streamed([text("Let me look. "), call("w1", "weather", {})]).slice(0, -1);
    const cut = new MockModel({ doStream: async () => ({ stream: mocks.convertArrayToReadableStream(chunks) }) });
    const weather = ai.tool({ inputSchema: ai.jsonSchema({ type: "object" }), execute: async () => "12 degrees" });
    await ai.streamText({ model: ai.wrapLanguageModel({ model: cut, middleware }), tools: { weather }, prompt: "Weather?", onError: () => {} }).consumeStream();
    await middleware.settled();
    const chat = [
      user("u1", "Weather?"),
      { id: "a1", role: "assistant", parts: [text("Let me look. "), { type: "tool-weather", toolCallId: "w1", state: "output-available", input: {}, output: "12 degrees" }] },
      user("u2", "And?"),
    ];
    const model = ai.wrapLanguageModel({ model: scripted("12 degrees."), middleware });
    assert.equal((await ai.generateText({ model, messages: await ai.convertToModelMessages(chat) })).text, "12 degrees.");
    assert.deepEqual((await log(agent)).slice(3), ["assistant: Let me look. ", "tool: 12 degrees", "user: And?", "assistant: 12 degrees."]);
  });

  test("a stream whose reader goes away keeps what was said", async () => {
    const agent = await newAgent();
    const middleware = vctxMemory(agent);
    const { stream } = await ai.wrapLanguageModel({ model: stalling(), middleware }).doStream({ prompt: [{ role: "user", content: [text("Where?")] }] });
    const reader = stream.getReader();
    for (let part = 0; part < 4; part += 1) await reader.read();
    await reader.cancel();
    await middleware.settled();
    assert.equal((await log(agent))[1], "assistant: The boat ");
  });

  test("a stream that breaks keeps what was said, and the call can be repeated with its key", async () => {
    const agent = await newAgent();
    const middleware = vctxMemory(agent);
    const broken = streamed([text("The boat lies at pier 4.")]).slice(0, 5).concat({ type: "error", error: new Error("no power") });
    let time = 0;
    const doStream = async () => {
      time += 1;
      return { stream: mocks.convertArrayToReadableStream(time === 1 ? broken : streamed([text("At pier 4.")])) };
    };
    const model = ai.wrapLanguageModel({ model: new MockModel({ doStream }), middleware });
    const errors = [];
    const options = { model, prompt: "Where?", providerOptions: { vctx: { key: "broken" } } };
    await ai.streamText({ ...options, onError: ({ error }) => errors.push(error.message) }).consumeStream();
    await middleware.settled();
    assert.equal(errors[0], "no power");
    assert.equal(await ai.streamText(options).text, "At pier 4.");
    const cut = "system: [The answer above was cut off before its end.]";
    assert.deepEqual(await log(agent), ["user: Where?", "assistant: The boat lies ", cut, "assistant: At pier 4."]);
  });

  test("a failure to keep what was cut off is reported", async () => {
    const agent = await newAgent({ context_window: 512 });
    const problems = [];
    const middleware = vctxMemory(agent, { onError: (problem) => problems.push(problem.code) });
    const chunks = streamed([text("word ".repeat(2_000))]).slice(0, -1);
    const doStream = async () => ({ stream: mocks.convertArrayToReadableStream(chunks) });
    await ai.streamText({ model: ai.wrapLanguageModel({ model: new MockModel({ doStream }), middleware }), prompt: "Go.", onError: () => {} }).consumeStream();
    await middleware.settled();
    assert.deepEqual(problems, ["TOKEN_BUDGET_EXCEEDED"]);
  });

  test("many calls at once on one agent", async () => {
    const agent = await newAgent();
    const asks = Array.from({ length: 12 }, (_, number) => `Question ${number}.`);
    const model = withMemory(agent, scripted(...asks.map((_, number) => `Answer ${number}.`)));
    await Promise.all(asks.map((prompt) => ai.generateText({ model, prompt })));
    const rows = await log(agent);
    assert.deepEqual(rows.filter((row) => row.startsWith("user")).sort(), asks.map((ask) => `user: ${ask}`).sort());
    assert.equal(new Set(rows).size, 24);
  });

  test("messages of a chat are saved once and loaded again", async () => {
    const agent = await newAgent();
    const chat = [
      user("u1", "Weather?"),
      {
        id: "a1",
        role: "assistant",
        parts: [
          { type: "step-start" },
          text("Let me look."),
          { type: "tool-weather", toolCallId: "w1", state: "output-available", input: { city: "Kiel" }, output: { degrees: 12 } },
          { type: "tool-tide", toolCallId: "t1", state: "output-error", input: { city: "Kiel" }, errorText: "no gauge" },
          { type: "step-start" },
          text("It is 12 degrees."),
        ],
      },
    ];
    assert.equal(await saveMessages(agent, chat), 5);
    assert.equal(await saveMessages(agent, chat), 0);
    const longer = [...chat, user("u2", "Weather?")];
    assert.equal(await saveMessages(agent, longer), 1);
    assert.equal(await saveMessages(agent, chat), 0);
    const loaded = await ai.validateUIMessages({ messages: await loadMessages(agent) });
    assert.deepEqual(loaded.map(({ role }) => role), ["user", "assistant", "user"]);
    const bare = ({ parts }) => parts.map(({ state, ...part }) => (part.type === "text" ? part : { ...part, state }));
    assert.deepEqual(bare(loaded[1]), bare(chat[1]));
    assert.equal(await saveMessages(agent, loaded), 0);
    assert.equal(await saveMessages(await newAgent(), loaded), 6);
    assert.equal((await loadMessages(agent, { limit: 1 })).length, 1);
  });

  test("a new chat with old words is new, and an old list adds nothing", async () => {
    const agent = await newAgent();
    const monday = [user("m1", "Hi."), { id: "m2", role: "assistant", parts: [text("Hello!")] }, user("m3", "Bye."), { id: "m4", role: "assistant", parts: [text("Bye!")] }];
    assert.equal(await saveMessages(agent, monday), 4);
    assert.equal(await saveMessages(agent, [user("t1", "Hi.")]), 1);
    assert.equal(await saveMessages(agent, monday.slice(0, 2)), 0);
    // The same list with other ids, as the middleware would have appended it.
    assert.equal(await saveMessages(agent, monday.map((message) => ({ ...message, id: `x${message.id}` }))), 0);
  });

  test("what was forgotten does not come back with a chat that still shows it", async () => {
    const agent = await newAgent();
    const answer = (id, said) => ({ id, role: "assistant", parts: [text(said)] });
    const chat = [user("u1", "Hello."), answer("a1", "Hello!"), user("u2", "The word is herring."), answer("a2", "Noted: herring.")];
    await saveMessages(agent, chat);
    const loaded = await loadMessages(agent);
    await agent.forget({ match: "herring" });
    assert.deepEqual((await loadMessages(agent)).map(({ parts }) => parts.at(-1).text), ["Hello.", "Hello!"]);
    for (const shown of [chat, loaded]) assert.equal(await saveMessages(agent, [...shown, user(`n-${shown[0].id}`, `Seen ${shown[0].id}.`)]), 1);
    assert.deepEqual((await log(agent)).filter((row) => row.includes("herring")), []);
  });

  test("the output of a tool of the browser is added to a loaded message", async () => {
    const agent = await newAgent();
    const asked = { type: "tool-confirm", toolCallId: "c1", state: "input-available", input: {} };
    await saveMessages(agent, [user("u1", "Sail?"), { id: "a1", role: "assistant", parts: [asked] }]);
    const loaded = await loadMessages(agent);
    Object.assign(loaded[1].parts.at(-1), { state: "output-available", output: "yes" });
    loaded[1].parts.push({ type: "step-start" }, text("Then sail."));
    assert.equal(await saveMessages(agent, loaded), 2);
    assert.equal(await saveMessages(agent, loaded), 0);
    assert.deepEqual((await log(agent)).slice(-2), ["tool: yes", "assistant: Then sail."]);
  });

  test("a route of a chat with middleware and saved messages stores everything once", async () => {
    const agent = await newAgent();
    const tools = await vctxTools(agent);
    const model = withMemory(agent, scripted([call("n1", "store_core", { block_id: "boat", content: "At pier 4." })], "Noted.", "At pier 4."));
    let messages = [];
    for (const [id, said] of [["u1", "My boat is at pier 4."], ["u2", "Where is it?"]]) {
      messages = [...messages, user(id, said)];
      const result = ai.streamText({ model, tools, messages: await ai.convertToModelMessages(messages), stopWhen: ai.stepCountIs(3) });
      let saved;
      const stream = result.toUIMessageStream({
        originalMessages: messages,
        generateMessageId: () => `a-${id}`,
        onFinish: async (end) => {
          messages = end.messages;
          saved = await saveMessages(agent, messages, { tools });
        },
      });
      await stream.pipeTo(new WritableStream());
      assert.equal(saved, 0);
    }
    assert.deepEqual((await log(agent)).map((line) => line.split(":")[0]), ["user", "assistant", "tool", "assistant", "user", "assistant"]);
    const loaded = await loadMessages(agent);
    assert.deepEqual(loaded.map(({ parts }) => parts.map(({ type }) => type)), [
      ["text"],
      ["step-start", "tool-store_core", "step-start", "text"],
      ["text"],
      ["step-start", "text"],
    ]);
    assert.equal(await saveMessages(agent, [...loaded, user("u3", "Thanks.")]), 1);
  });

  test("what the document shows runs as it is there", async () => {
    const directory = `${running.home}/run/vctx`;
    mkdirSync(directory, { recursive: true });
    symlinkSync(running.socket, `${directory}/vctx.sock`);
    const page = readFileSync(new URL("../../../docs/how-to/ai-sdk.md", import.meta.url), "utf8");
    const shown = page.split("~~~js\n").slice(1).map((block) => block.split("~~~")[0]);
    assert.equal(shown.length, 4);
    const program = `
      import { MockLanguageModelV3, convertArrayToReadableStream } from "ai/test";
      const content = ${JSON.stringify([text("At pier 4.")])};
      const generated = { content, finishReason: ${JSON.stringify(finish([]))}, usage: ${JSON.stringify(USAGE)}, warnings: [] };
      const chunks = ${JSON.stringify(streamed([text("At pier 4.")]))};
      const model = new MockLanguageModelV3({ doGenerate: async () => generated, doStream: async () => ({ stream: convertArrayToReadableStream(chunks) }) });
      ${shown.join("\n")}
      const messages = [{ id: "u", role: "user", parts: [{ type: "text", text: "And now?" }] }];
      const response = await POST(new Request("http://app", { method: "POST", body: JSON.stringify({ messages }) }));
      const body = await response.text();
      if (!body.includes('"delta":"4."')) throw new Error(body);
      if ((await onFinish({ messages: await loadMessages(ada) })) !== 0) throw new Error("saved twice");
      client.close();`;
    const env = { ...process.env, XDG_RUNTIME_DIR: `${running.home}/run` };
    await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program], { cwd: fileURLToPath(new URL("..", import.meta.url)), env });
    const rows = await log(client.agent("ada"));
    assert.deepEqual(rows.filter((row) => row.startsWith("user")), ["user: My boat lies at pier 4.", "user: Where is it?", "user: And now?"]);
    assert.equal(rows.length, 6);
  });

  test("the SDK talks to a model over HTTP", async () => {
    const agent = await newAgent({ form: "strict" });
    const overSocket = (url, { method, headers, body, signal }) =>
      new Promise((resolve, reject) => {
        const options = { socketPath: running.modelSocket, method, path: new URL(url).pathname, headers: Object.fromEntries(new Headers(headers)), signal };
        const asked = http.request(options, (answer) => resolve(new Response(Readable.toWeb(answer), { status: answer.statusCode, headers: answer.headers })));
        asked.on("error", reject);
        asked.end(body);
      });
    const provider = createOpenAICompatible({ name: "scripted", baseURL: "http://model/v1", fetch: overSocket });
    const model = withMemory(agent, provider("any"));
    const result = ai.streamText({ model, tools: await vctxTools(agent), prompt: "I moored the Swallow at pier 4.", stopWhen: ai.stepCountIs(4) });
    assert.equal(await result.text, "Noted: the Swallow lies at pier 4.");
    assert.equal((await agent.fetchCore("human")).result.content, "Their boat, the Swallow, lies at pier 4.");
    assert.deepEqual((await log(agent)).map((line) => line.split(":")[0]), ["user", "assistant", "tool", "assistant"]);
  });
});
