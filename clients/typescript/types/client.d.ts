/** The calls of the server. */
import { Transport } from "./transport.js";
import type * as t from "./types.js";
/**
 * A server at its socket; connects with the first call. A call is sent again, with the same key, when the connection failed or the
 * server was busy, for `patienceMs` after the first failure (for a second if no call of this client ever had an answer); everything
 * else is thrown immediately. A writing call without an answer is remembered for ten minutes: the same call is its repetition.
 */
export declare class Client {
    #private;
    socket: string;
    /** @internal */
    transport: Transport;
    /** @param {string} [socket] where the server listens; where the command line looks unless given @param {t.Options} [options] */
    constructor(socket?: string, { timeoutMs, patienceMs, label }?: t.Options);
    /** Closes the connections; another call opens a new one. */
    close(): void;
    /** A handle of an agent; sends nothing. @param {string} name */
    agent(name: string): Agent;
    /** Creates an agent, or finds it with the same configuration; raises `AgentExists` for another configuration. @param {string} name @param {t.NewAgent} configuration */
    createAgent(name: string, configuration: t.NewAgent): Promise<Agent>;
    /** Deletes an agent with everything that it remembers; gives the manifest (as `Agent.forget` with `all`). @param {string} name @param {t.Write} [write] @returns {Promise<t.Json>} */
    deleteAgent(name: string, write?: t.Write): Promise<t.Json>;
    /** Creates an agent; an agent that exists keeps its memory and gets the settings that are given here. @param {string} name @param {t.NewAgent} configuration */
    getOrCreate(name: string, configuration: t.NewAgent): Promise<Agent>;
    /** A page of the agents by name, or of those of one person; `start` is `next` of the previous page. @param {string} [start] @param {number} [limit] @param {{user?: string}} [of] @returns {Promise<{agents: t.Json[], next: string | null}>} */
    agents(start?: string, limit?: number, { user }?: {
        user?: string;
    }): Promise<{
        agents: t.Json[];
        next: string | null;
    }>;
    /** All agents by name, page after page. @param {{user?: string}} [of] @returns {AsyncGenerator<t.Json, void>} */
    allAgents(of?: {
        user?: string;
    }): AsyncGenerator<t.Json, void>;
    /** Searches all agents of a person, and sorts their results together. @param {string} user @param {string} query @param {{limit?: number, stores?: ("recall" | "archive")[], labels?: t.Labels}} [how] @returns {Promise<t.FoundOfUser>} */
    searchUser(user: string, query: string, how?: {
        limit?: number;
        stores?: ("recall" | "archive")[];
        labels?: t.Labels;
    }): Promise<t.FoundOfUser>;
    /** The public key of the server's checkpoints, and signed agents that are not in the database. @returns {Promise<t.Json>} */
    ledgers(): Promise<t.Json>;
    /** Schemas of the tools, in one of the server's formats and with the names of a dialect. The profile is "full" (all arguments) or "compact" (those that a model needs); by default full for "json-schema" and compact for the formats of providers. @param {{format?: string, dialect?: string, profile?: "full" | "compact", strict?: boolean}} [how] @returns {Promise<t.Json>} */
    tools({ format, dialect, profile, strict }?: {
        format?: string;
        dialect?: string;
        profile?: "full" | "compact";
        strict?: boolean;
    }): Promise<t.Json>;
    /** The progress of a reindex of the archive. @returns {Promise<t.Json>} */
    reindexStatus(): Promise<t.Json>;
    /**
     * Begins, pauses or abandons a change of all vectors, or trains the current index again; a repetition has no effect.
     *
     * @param {"start" | "stop" | "cancel" | "index"} action @param {{metric?: "cosine" | "l2"}} [more] @returns {Promise<t.Json>}
     */
    reindex(action: "start" | "stop" | "cancel" | "index", more?: {
        metric?: "cosine" | "l2";
    }): Promise<t.Json>;
    /** The databases of agents, and whether each is reachable. @returns {Promise<t.Json>} */
    places(): Promise<t.Json>;
    /** Moves an agent to another database; has no effect if it is already there. @param {string} name @param {string} to @returns {Promise<t.Json>} */
    moveAgent(name: string, to: string): Promise<t.Json>;
    /**
     * The whole agent as chunks of one file; `timeoutMs` limits the wait for each chunk.
     *
     * @param {string} name @param {{signal?: AbortSignal, timeoutMs?: number}} [more] @returns {AsyncGenerator<Uint8Array, void>}
     */
    exportAgent(name: string, { signal, timeoutMs }?: {
        signal?: AbortSignal;
        timeoutMs?: number;
    }): AsyncGenerator<Uint8Array, void>;
    /**
     * Creates an agent from an exported file of up to 64 MiB (use `vctx import` for larger files); the same file again has no effect.
     *
     * @param {string} name @param {Uint8Array} file @param {{signal?: AbortSignal, timeoutMs?: number}} [more] @returns {Promise<t.Json>}
     */
    importAgent(name: string, file: Uint8Array, more?: {
        signal?: AbortSignal;
        timeoutMs?: number;
    }): Promise<t.Json>;
    /** The server's OpenAPI description. @returns {Promise<t.Json>} */
    openapi(): Promise<t.Json>;
    /** Whether the server is running: one attempt. @returns {Promise<t.Json>} */
    healthz(): Promise<t.Json>;
    /** Whether the server is ready: one attempt; `NotReady` has the reason. @returns {Promise<t.Json>} */
    readyz(): Promise<t.Json>;
}
/**
 * One agent's memory. A call that appends or changes settings builds on any revision; a call that writes a block or a document builds on
 * the last answer that showed it. If another caller changed that block or document since, the call fails with `RevisionStale`, and
 * `state()` reads it again.
 */
export declare class Agent {
    #private;
    name: string;
    /** @param {Client} client @param {string} name */
    constructor(client: Client, name: string);
    /** The server of this agent. */
    get client(): Client;
    /** Revision of the memory in the last answer. */
    get rev(): string | undefined;
    /** Creates the agent, or finds it with the same configuration. @param {t.NewAgent} configuration @returns {Promise<t.State>} */
    create(configuration: t.NewAgent): Promise<t.State>;
    /** Revision, blocks, queue, summary, budget, tokens. @returns {Promise<t.State>} */
    state(): Promise<t.State>;
    /** Changes window, system text, encoding or limits of heartbeats; what is absent stays. @param {t.AgentPatch} change @param {t.Write} [write] @returns {Promise<t.State>} */
    patch(change: t.AgentPatch, write?: t.Write): Promise<t.State>;
    /**
     * One tool call of a model, by the tool's name; the methods below do the same with typed arguments.
     *
     * @param {string} tool @param {Record<string, unknown>} given @param {t.Write & t.Captured} [write] @returns {Promise<t.Answer<any>>}
     */
    call(tool: string, given: Record<string, unknown>, write?: t.Write & t.Captured): Promise<t.Answer<any>>;
    /**
     * One tool call of a model, answered with the short text that the model reads; `given` may be the JSON text of the model.
     * With `capture`, the id of the model's call, the text is also appended to the queue as the result of that call.
     * The answer to a refused call is the text of the refusal, so that the model can correct its call. After `RevisionStale` the
     * state is read again, and the next call builds on it. Throws if no answer came, or if the same call can succeed later
     * (`problem.passing`).
     *
     * @param {string} tool @param {Record<string, unknown> | string} given @param {t.Write & t.Captured} [write] @returns {Promise<string>}
     */
    tell(tool: string, given: Record<string, unknown> | string, write?: t.Write & t.Captured): Promise<string>;
    /** Writes a block of working memory. @param {string} blockId @param {string} content @param {t.BlockPolicy} [policy] @param {t.Write} [write] @returns {Promise<t.Answer<t.Stored>>} */
    storeCore(blockId: string, content: string, policy?: t.BlockPolicy, write?: t.Write): Promise<t.Answer<t.Stored>>;
    /** Reads a block of working memory, or all blocks (`blocks` of the result). @param {string} [blockId] @returns {Promise<t.Answer<t.Fetched>>} */
    fetchCore(blockId?: string): Promise<t.Answer<t.Fetched>>;
    /**
     * Appends a message to the queue; if the window would overflow, evicts the oldest messages in the same transaction.
     *
     * @param {string} content @param {t.Role} [role] @param {t.MessageParts} [parts] @param {t.Write} [write]
     * @returns {Promise<t.Answer<t.Appended>>}
     */
    appendFifo(content: string, role?: t.Role, { cites, ...parts }?: t.MessageParts, write?: t.Write): Promise<t.Answer<t.Appended>>;
    /**
     * Appends messages in order, as few writes as their number and the window allow; a text is a user's message. Each write is atomic.
     * After a failure, the same call goes on where it ended, and doubles nothing.
     *
     * @param {(string | t.NewMessage)[]} messages @param {t.Write} [write] @returns {Promise<t.AppendedMessage[]>}
     */
    appendMessages(messages: (string | t.NewMessage)[], { key: given, ...write }?: t.Write): Promise<t.AppendedMessage[]>;
    /** Moves the oldest messages into recall storage until the window holds at most `target_tokens`; the default is half of the window. @param {t.Eviction} [how] @param {t.Write} [write] @returns {Promise<t.Answer<t.Evicted>>} */
    evictFifo(how?: t.Eviction, write?: t.Write): Promise<t.Answer<t.Evicted>>;
    /** Finds earlier messages; with `rehydrate` (the default) copies the fitting ones into the window. @param {string} query @param {t.RecallSearch} [how] @param {t.Write} [write] @returns {Promise<t.Answer<t.Found>>} */
    searchRecall(query: string, how?: t.RecallSearch, write?: t.Write): Promise<t.Answer<t.Found>>;
    /** Writes entries directly into recall storage. @param {(string | t.Entry)[]} entries @param {t.Write} [write] @returns {Promise<t.Answer<t.Written>>} */
    writeRecall(entries: (string | t.Entry)[], write?: t.Write): Promise<t.Answer<t.Written>>;
    /** Finds passages of archived documents. @param {string | t.ArchiveSearch} asked @param {t.ArchiveSearch} [how] @param {t.Write} [write] @returns {Promise<t.Answer<t.Found>>} */
    searchArchival(asked: string | t.ArchiveSearch, how?: t.ArchiveSearch, write?: t.Write): Promise<t.Answer<t.Found>>;
    /** Takes a document into the archive. One that this handle has not seen must be new; `{rev: ANY}` replaces whatever is there. @param {string} docId @param {string | t.Ingest} what its text, or more @param {t.Write} [write] @returns {Promise<t.Answer<t.Ingested>>} */
    ingestArchival(docId: string, what: string | t.Ingest, write?: t.Write): Promise<t.Answer<t.Ingested>>;
    /** A page of the archive's documents by name; `start` is `next` of the previous page, and `prefix` the beginning of their names. With `texts` each document has its passages, unless they are too long for a page, and with `tokens` the number of their tokens. A server with a quarantine shows names and texts only as `originals`: do not give them to a model. @param {t.DocumentsPage} [how] @returns {Promise<t.Documents>} */
    documents({ prefix, start, limit, reverse, texts, tokens, originals }?: t.DocumentsPage): Promise<t.Documents>;
    /** All documents whose names begin with a text, page after page. @param {t.DocumentsPage} [how] @returns {AsyncGenerator<t.Document, void>} */
    allDocuments(how?: t.DocumentsPage): AsyncGenerator<t.Document, void>;
    /** A document of the archive with a page of its passages; `start` is `next_index` of the previous page. Without `originals`, texts in quarantine are left out. @param {string} docId @param {number} [start] @param {number} [limit] @param {{originals?: boolean}} [how] @returns {Promise<t.Document>} */
    document(docId: string, start?: number, limit?: number, { originals }?: {
        originals?: boolean;
    }): Promise<t.Document>;
    /** Deletes a document from the archive. @param {string} docId @param {t.Write} [write] @returns {Promise<t.Answer<t.Ingested>>} */
    deleteDocument(docId: string, write?: t.Write): Promise<t.Answer<t.Ingested>>;
    /** Asks for the next turn immediately, or yields. @param {"continue" | "yield"} state @param {{note?: string}} [more] @param {t.Write} [write] @returns {Promise<t.Answer<t.Beat>>} */
    recordHeartbeat(state: "continue" | "yield", { note }?: {
        note?: string;
    }, write?: t.Write): Promise<t.Answer<t.Beat>>;
    /** What something in memory is joined to, page by page; `from` is an id, a seq as text, or `agent`. @param {string} from @param {t.Trace & {page_token?: string}} [how] @param {t.Write} [write] @returns {Promise<t.Answer<t.Found>>} */
    traceMemory(from: string, how?: t.Trace & {
        page_token?: string;
    }, write?: t.Write): Promise<t.Answer<t.Found>>;
    /** Puts an event into the queue; `content` is a text, or JSON that is stored as text. Without a revision, any revision is accepted. @param {t.EventClass} eventClass @param {unknown} content @param {{name?: string}} [more] @param {t.Write} [write] @returns {Promise<t.Answer<t.Appended>>} */
    postEvent(eventClass: t.EventClass, content: unknown, more?: {
        name?: string;
    }, write?: t.Write): Promise<t.Answer<t.Appended>>;
    /**
     * Runs the server's model on new input (a text of the user, or messages) until it yields; gives the result. The same
     * call with the same key continues an interrupted run.
     *
     * @param {string | t.Json[]} [said] @param {t.Run} [how] @param {t.Write} [write] @returns {Promise<t.RunEnd>}
     */
    run(said?: string | t.Json[], how?: t.Run, write?: t.Write): Promise<t.RunEnd>;
    /**
     * The same as a stream of events; the last one, of type `end`, has the result. Closing the stream cancels the run. `timeoutMs`
     * bounds the time between two events; the call is not repeated automatically.
     *
     * @param {string | t.Json[]} [said] @param {t.Run} [how] @param {t.Write} [write] @returns {AsyncGenerator<t.RunEvent, void>}
     */
    runEvents(said?: string | t.Json[], how?: t.Run, write?: t.Write): AsyncGenerator<t.RunEvent, void>;
    /** Renders the window as a request for a model (`request`, the text to send) and records it before it is sent. @param {t.NewPrompt} asked @param {t.Write} [write] @returns {Promise<t.Json>} */
    recordPrompt(asked: t.NewPrompt, write?: t.Write): Promise<t.Json>;
    /** Records the model's answer: its message and the end of the prompt in one write; `end_run` also ends the run. @param {number} turn @param {t.PromptAnswer} said @param {t.Write} [write] @returns {Promise<t.Json>} */
    recordAnswer(turn: number, said: t.PromptAnswer, write?: t.Write): Promise<t.Json>;
    /** A page of prompts that were sent to a model: figures, digests and ends. @param {number} [start] `next_turn` of the previous page @param {number} [limit] @returns {Promise<{prompts: t.Json[], next_turn: number | null}>} */
    prompts(start?: number, limit?: number): Promise<{
        prompts: t.Json[];
        next_turn: number | null;
    }>;
    /** A past prompt, reassembled byte by byte and checked against its digests. @param {number} turn @returns {Promise<t.Json>} */
    prompt(turn: number): Promise<t.Json>;
    /** The life of a fact, or why a prompt (`turn`) held what it held. @param {{text?: string, turn?: number, from_turn?: number}} asked @returns {Promise<t.Json>} */
    why(asked: {
        text?: string;
        turn?: number;
        from_turn?: number;
    }): Promise<t.Json>;
    /** Forgets messages, a document, everything that contains a text, or the whole agent; gives the manifest. A forgetting that is `under_way` is continued by the same call with the same key. @param {t.Forget} what @param {t.Write} [write] @returns {Promise<t.Json>} */
    forget(what: t.Forget, write?: t.Write): Promise<t.Json>;
    /** Gives the agent a new name; its earlier names, and this handle, still reach it. Raises `AgentExists` for a name that another agent has or had. @param {string} name @param {t.Write} [write] @returns {Promise<t.State>} */
    rename(name: string, write?: t.Write): Promise<t.State>;
    /** Makes another agent with this agent's memory, under a new name; raises `AgentExists` for a name that is in use. @param {string} name @param {t.Write} [write] @returns {Promise<Agent>} */
    clone(name: string, write?: t.Write): Promise<Agent>;
    /** Deletes the agent with everything that it remembers; gives the manifest. A deletion that is `under_way` is continued by the same call with the same key. @param {t.Write} [write] @returns {Promise<t.Json>} */
    delete(write?: t.Write): Promise<t.Json>;
    /** The manifests of forgettings: positions and digests, never text. @returns {Promise<t.Json>} */
    forgettings(): Promise<t.Json>;
    /** The schedules of the agent. @returns {Promise<t.Json>} */
    schedules(): Promise<t.Json>;
    /** One schedule: its next moment and its last result. @param {string} name @returns {Promise<t.Json>} */
    schedule(name: string): Promise<t.Json>;
    /** Creates or changes a schedule that puts events into the queue, repeatedly or once; a repetition has no effect. @param {string} name @param {t.Schedule} what @returns {Promise<t.Json>} */
    putSchedule(name: string, what: t.Schedule): Promise<t.Json>;
    /** Deletes a schedule. @param {string} name @returns {Promise<t.Json>} */
    deleteSchedule(name: string): Promise<t.Json>;
    /**
     * What the memory and the given documents say about a question, in a bounded number of tokens; by default about the newest message of the
     * user. `text` is the context, `messages` the prompt with it, `pack` names it for `recordPrompt`.
     * @param {string} [question]
     * @param {{ documents?: { text: string, id?: string }[], tokensMax?: number, depth?: "auto" | "once" | "deep", explain?: boolean }} [how]
     * @returns {Promise<t.Json>}
     */
    buildContext(question?: string, { documents, tokensMax, depth, explain }?: {
        documents?: {
            text: string;
            id?: string;
        }[];
        tokensMax?: number;
        depth?: "auto" | "once" | "deep";
        explain?: boolean;
    }): Promise<t.Json>;
    /** The rendered window as chat messages, with its receipt. @returns {Promise<t.Context>} */
    context(): Promise<t.Context>;
    /** A page of the tainted items of the memory: positions, rules and lengths. @param {string} [start] `next` of the previous page @param {number} [limit] @returns {Promise<t.Json>} */
    quarantine(start?: string, limit?: number): Promise<t.Json>;
    /** One tainted item with its text. @param {string} id @returns {Promise<t.Json>} */
    quarantined(id: string): Promise<t.Json>;
    /** Releases a tainted item from quarantine, or holds it again. Without a revision, any revision is accepted. @param {string} id @param {boolean} [hold] @param {t.Write} [write] @returns {Promise<t.Answer<t.Json>>} */
    release(id: string, hold?: boolean, write?: t.Write): Promise<t.Answer<t.Json>>;
    /** The connections of an item of the memory, as one list. @param {string} from @param {t.Trace} [how] @returns {Promise<t.Json>} */
    trace(from: string, { follow, ...how }?: t.Trace): Promise<t.Json>;
    /** The Conveyance score of the memory, with all its counts. @param {"session" | "life"} [of] @returns {Promise<t.Json>} */
    conveyance(of?: "session" | "life"): Promise<t.Json>;
    /** A page of all messages ever appended, or of those of one session. @param {number} [start] `next_seq` of the previous page @param {number} [limit] @param {{session?: string, originals?: boolean}} [how] @returns {Promise<{messages: t.Message[], next_seq: number | null}>} */
    messages(start?: number, limit?: number, { session, originals }?: {
        session?: string;
        originals?: boolean;
    }): Promise<{
        messages: t.Message[];
        next_seq: number | null;
    }>;
    /** A page of the agent's sessions by name; `start` is `next` of the previous page. @param {string} [start] @param {number} [limit] @returns {Promise<{sessions: t.Session[], next: string | null}>} */
    sessions(start?: string, limit?: number): Promise<{
        sessions: t.Session[];
        next: string | null;
    }>;
    /** All sessions by name, page after page. @returns {AsyncGenerator<t.Session, void>} */
    allSessions(): AsyncGenerator<t.Session, void>;
    /** A page of the memory's events: figures and ids, never text. @param {string} [start] `next_ts` of the previous page @param {number} [limit] @returns {Promise<{events: t.Event[], next_ts: string | null}>} */
    events(start?: string, limit?: number): Promise<{
        events: t.Event[];
        next_ts: string | null;
    }>;
    /**
     * Every change of the memory after a given one, once and in order: figures and ids, never text. The feed goes on by itself after a
     * restart of the server; after a failure it tries for the client's `patienceMs`. It ends when the agent is forgotten, and with
     * `wait: false` after the newest change. `ChangeUnknown` means that the agent has no such change any more.
     *
     * @param {t.Following} [how] @returns {AsyncGenerator<t.Change, void>}
     */
    changes(how?: t.Following): AsyncGenerator<t.Change, void>;
    /** The place of the newest change: `changes({ after })` with it shows what comes after this call. @returns {Promise<string>} */
    lastChange(): Promise<string>;
    /** The differences between all rows of the agent and the agent's ledger. @returns {Promise<t.Json>} */
    ledger(): Promise<t.Json>;
    /** Accepts the core as it is in the database, if its ledger contradicts it and it still has the revision `rev`. @param {string} rev @returns {Promise<t.Json>} */
    acceptCore(rev: string): Promise<t.Json>;
    /** A page of copies of system text, blocks and summary. @param {number} [start] `next_version` of the previous page @param {number} [limit] @returns {Promise<{versions: t.Json[], next_version: number | null}>} */
    history(start?: number, limit?: number): Promise<{
        versions: t.Json[];
        next_version: number | null;
    }>;
    /** All messages ever appended, page after page. @param {number} [start] @param {{session?: string}} [how] @returns {AsyncGenerator<t.Message, void>} */
    allMessages(start?: number, how?: {
        session?: string;
    }): AsyncGenerator<t.Message, void>;
    /** All events, page after page. @returns {AsyncGenerator<t.Event, void>} */
    allEvents(start?: string): AsyncGenerator<t.Event, void>;
    /** All copies of the texts, page after page. @returns {AsyncGenerator<t.Json, void>} */
    allVersions(start?: number): AsyncGenerator<t.Json, void>;
    /** All prompts, page after page. @returns {AsyncGenerator<t.Json, void>} */
    allPrompts(start?: number): AsyncGenerator<t.Json, void>;
    /** All tainted items, page after page. @returns {AsyncGenerator<t.Json, void>} */
    allQuarantined(): AsyncGenerator<t.Json, void>;
    /** All results of `searchRecall`, page after page, without copies in the window. @param {string} query @param {t.RecallSearch} [how] @returns {AsyncGenerator<t.Json, void>} */
    allFound(query: string, how?: t.RecallSearch): AsyncGenerator<t.Json, void>;
    /** All results of `searchArchival`, page after page. @param {string} queryText @param {t.ArchiveSearch} [how] @returns {AsyncGenerator<t.Json, void>} */
    allPassages(queryText: string, how?: t.ArchiveSearch): AsyncGenerator<t.Json, void>;
}
