/** The shapes of arguments and answers, as far as they are promised; what a newer server adds is there all the same. */

export type Role = "user" | "assistant" | "system" | "tool";
export type EventClass = "user" | "system" | "user_interaction" | "scheduled";
export type Relation = "around" | "cites" | "cited_by" | "derived_from" | "derived" | "links" | "summary" | "logged" | "copies";
export type Json = Record<string, any>;

/** Key and revision of a writing call. */
export interface Write {
  /** The same for every repetition of one logical call; a fresh one unless given. */
  key?: string;
  /** The revision that the call builds on: that of the last answer seen about what it writes unless given, or `ANY`. */
  rev?: string;
  /** Gives the call up; what it had begun may have its effect. */
  signal?: AbortSignal;
  /** Milliseconds for one attempt of this call; the client's unless given. */
  timeoutMs?: number;
}

/** What happens in a run, as it happens; the last one is its end. */
export type RunEvent =
  | { type: "turn"; n: number }
  | { type: "text"; text: string }
  | { type: "called"; id: string; name: string; arguments: string }
  | { type: "returned"; id: string; ok: boolean; error?: string }
  | { type: "waiting"; ms: number; why: string }
  | { type: "end"; end: RunEnd };

/** A change of a memory, in figures: the event of the change, its number, and `at`, its place for `changes({ after })`. */
export interface Change {
  at: string;
  n: number;
  id: string;
  type: string;
  ts: string;
  details: Json;
}

/** Which changes are followed. */
export interface Following {
  /** `at` or number of a change, 0 for all; the newest one unless given. */
  after?: string | number;
  /** Whether the feed goes on after the newest change; true unless given. */
  wait?: boolean;
  signal?: AbortSignal;
  /** Milliseconds between two signs of life of the server, which come every ten seconds. */
  timeoutMs?: number;
}

/** What a run came to. */
export interface RunEnd {
  reason: string;
  text: string;
  client_calls: Json[];
  usage: Json;
  turns: number;
  last_seq: number;
  fault?: string | null;
}

/** Whether a result is appended to the queue in the transaction of its effect. */
export interface Captured {
  /** `true`: with the call that it answers, as a pair; the id of a call that stands there already: for that one. */
  capture?: boolean | string;
}

/** How a run goes. */
export interface Run {
  /** Labels of the input's messages that have none, and of the answers. */
  labels?: Labels;
  beat?: "asked" | "always";
  engineer?: "off" | "auto" | "always";
  tools?: string[];
  client_tools?: Json[];
  options?: Json;
}

/** What a loop of one's own is about to ask its model. */
export interface NewPrompt {
  run: string;
  model: string;
  /** Form of the request; tools and options are given in the form of chat completions. */
  api?: "chat" | "responses" | "messages";
  tools?: Json[];
  options?: Json;
  /** Digest of a context pack that the prompt shows. */
  pack?: string;
  lease_ms?: number;
}

/** What its model answered. */
export interface PromptAnswer {
  run: string;
  finish: string;
  content?: string;
  tool_calls?: { id: string; name: string; arguments: string }[];
  usage?: { prompt: number; completion: number };
  end_run?: string;
}

/** How often or when, and what is said then. */
export interface Schedule {
  content: string;
  every_ms?: number;
  at?: string;
  run?: boolean;
}

/** What is to be forgotten: name it in one way. */
export interface Forget {
  seqs?: number[];
  ids?: string[];
  doc_id?: string;
  match?: string;
  all?: boolean;
  /** Blocks that quote it go too; else they are only told. */
  blocks?: boolean;
  dry_run?: boolean;
}

export interface Options {
  /** Milliseconds for one attempt; 30 000. */
  timeoutMs?: number;
  /** Milliseconds for which a call is repeated after its first failure; 30 000, so that it outlasts a restart of the server. */
  patienceMs?: number;
  /** Told to the server's audit rows. */
  label?: string;
}

export interface NewAgent {
  context_window: number;
  system?: string;
  encoding?: string;
  /** Form of the window. */
  form?: "2" | "strict";
  /** Time zone of the window, by its name in the IANA database. */
  zone?: string;
  /** `none` if only models on the server's machine may receive the agent's texts. */
  outbound?: "configured" | "none";
  /** When prompts get a context that is built for their question. */
  engineer?: "off" | "auto" | "always";
  /** The person to whom the agent belongs. */
  user?: string;
  /** How many agents have had the name, with this one; the name of a forgotten agent needs it. */
  incarnation?: number;
}

export interface AgentPatch {
  context_window?: number;
  system?: string;
  encoding?: string;
  form?: "2" | "strict";
  zone?: string;
  outbound?: "configured" | "none";
  /** When prompts get a context that is built for their question. */
  engineer?: "off" | "auto" | "always";
  /** The person to whom the agent belongs; an empty text for no person. */
  user?: string;
  /** Maximum number of tokens of prompts and answers per day; 0 removes the agent's own limit. */
  tokens_per_day?: number;
  heartbeat?: Record<string, number>;
  tools?: { digest: string; token_estimate: number };
}

export interface BlockPolicy {
  mode?: "replace" | "append" | "delete";
  pinned?: boolean;
  role?: string;
  justification?: string;
}

/** What belongs to a message beside its text. */
export interface MessageParts {
  name?: string;
  tool_calls?: Json[];
  tool_call_id?: string;
  said_at?: string;
  labels?: Labels;
  cites?: string[];
}

export interface Eviction {
  target_tokens?: number;
  summarize?: boolean;
  strategy?: "fifo";
}

/** User, session, tags and metadata of a message or document; as conditions of a search, all of them must hold. */
export interface Labels {
  user?: string;
  session?: string;
  tags?: string[];
  metadata?: { [name: string]: string };
}

export interface RecallSearch {
  limit?: number;
  mode?: "auto" | "text" | "vector" | "hybrid";
  similarity_min?: number;
  role?: Role;
  name?: string;
  after?: string;
  before?: string;
  labels?: Labels;
  tokens_max?: number;
  whole?: boolean;
  pairs?: boolean;
  memories?: boolean;
  order?: "usual" | "edges";
  explain?: boolean;
  rehydrate?: boolean;
  heartbeat?: boolean;
  page_token?: string;
}

export interface Entry {
  content: string;
  role?: Role;
  name?: string;
  said_at?: string;
  labels?: Labels;
  summary?: boolean;
}

export interface ArchiveSearch {
  query_text?: string;
  query_vector?: number[];
  mode?: "text" | "vector" | "hybrid";
  fusion?: "z_score" | "rrf";
  explain?: boolean;
  order?: "usual" | "edges";
  limit?: number;
  nProbe?: number;
  heartbeat?: boolean;
  filter?: { source?: string; doc_id?: string; doc_id_prefix?: string; labels?: Labels; freshness_after?: string };
  page_token?: string;
}

export interface Ingest {
  document?: string;
  chunks?: (string | Json)[];
  splitter?: Json;
  embeddings?: number[][];
  dimension?: number;
  metric?: "cosine" | "l2";
  embedding_version?: string;
  model_id?: string;
  late_chunking?: Json;
  freshness_ts?: string;
  provenance?: Json;
  labels?: Labels;
  part?: { upload: string; number: number; of: number };
  delete?: boolean;
}

/** Which documents a list shows, and how. */
export interface DocumentsPage {
  prefix?: string;
  start?: string;
  limit?: number;
  reverse?: boolean;
  texts?: boolean;
  tokens?: boolean;
  originals?: boolean;
}

/** A document of the archive; `next_index` is null after its last passage. */
export interface Document {
  doc_id: string;
  _rev: string;
  chunks: number;
  provenance: Json;
  labels: Labels;
  created_at: string;
  updated_at: string;
  passages?: { chunk_id: string | null; index: number; text: string; [more: string]: unknown }[] | null;
  tokens?: number;
  next_index?: number | null;
}

/** A page of documents; `next` is null after the last one. */
export interface Documents {
  documents: Document[];
  next: string | null;
}

/** A session, with the number and the time of its messages. */
export interface Session {
  session: string;
  messages: number;
  first_seq: number;
  last_seq: number;
  first_at: string;
  last_at: string;
}

/** What all agents of a person know, best first; each result names its agent. */
export interface FoundOfUser {
  agents: string[];
  agents_left_out?: boolean;
  recall?: Json[];
  archive?: Json[];
}

export interface Trace {
  follow?: Relation[];
  depth?: number;
  around?: number;
  limit?: number;
}

/** What the window holds, by section, in tokens. */
export interface Tokens {
  system: number;
  working: number;
  fifo: number;
  summary: number;
  notices: number;
  free: number;
  occupancy: number;
}

/** What the server says of chains of heartbeats (docs/reference/heartbeat.md). */
export interface Heartbeat {
  opportunity: boolean;
  tokens_remaining: number;
  chain_depth: number;
  duration_ms: number;
  chain?: string;
  granted?: boolean;
  terminated_reason?: string;
  closed_by?: string;
  refused?: string;
  retry_after_ms?: number;
  last_ended?: Json;
}

/** A tool's answer. */
export interface Answer<Result = Json> {
  result: Result;
  _rev: string;
  agent_rev?: string;
  version?: number;
  token_estimate: number;
  tokens: Tokens;
  pressure: "ok" | "warning" | "flush";
  heartbeat: Heartbeat;
  flush?: Json | null;
  receipt?: { seq: number; digest: string; chain: string };
  replayed: boolean;
}

/** One of several messages to append. */
export interface NewMessage {
  content: string;
  role: Role;
  name?: string;
  tool_calls?: Json[];
  tool_call_id?: string;
  said_at?: string;
  labels?: Labels;
}

/** One of several messages that were appended. */
export interface AppendedMessage {
  message_id: string;
  seq: number;
  token_estimate: number;
}

export interface Stored {
  block_id: string;
  _rev: string;
  token_estimate: number;
}

export interface Fetched extends Stored {
  content: string;
  role: string;
  pinned: boolean;
  /** All blocks, if no block was named. */
  blocks?: Json[];
}

export interface Appended {
  message_id: string;
  token_estimate: number;
  cited?: number;
}

export interface Evicted {
  evicted_count: number;
  new_summary_tokens: number;
  after_occupancy: number;
}

export interface Written {
  inserted_ids: string[];
  total_tokens: number;
}

/** One page of a search or a trace. */
export interface Found {
  results: Json[];
  next_page_token: string | null;
  tokens_added?: number;
  total?: number;
  proposals?: Json[];
  plan?: string;
  more?: boolean;
}

export interface Ingested {
  doc_id: string;
  inserted?: number;
  replaced: number;
  chunk_ids?: string[];
  vector_index_used?: boolean;
  _rev?: string | null;
}

export interface Beat {
  chain_depth: number;
  duration_ms: number;
  terminated_reason?: string;
}

export interface Block {
  id: string;
  role: string;
  content: string;
  token_estimate: number;
  pinned: boolean;
}

/** An agent's state. */
export interface State {
  agent: string;
  _rev: string;
  version: number;
  context_window: number;
  encoding: string;
  form: string;
  zone: string | null;
  outbound: string;
  engineer: "off" | "auto" | "always" | null;
  spending: Json;
  user?: string | null;
  /** Number of this agent among those that had its name; the first has none. */
  incarnation?: number;
  /** Names of the agent, if it has more than one. */
  names?: string[];
  /** The source of a clone. */
  cloned?: Json;
  system: string;
  working_blocks: Block[];
  queue: Json;
  summary: Json;
  token_budget: Json;
  notices: Json[];
  chain: Json;
  counters: Json;
  heartbeat: Json;
  tokens: Tokens;
  created_at: string;
  updated_at: string;
  replayed?: boolean;
}

export interface ChatMessage {
  role: Role;
  content: string;
  name?: string;
  tool_calls?: Json[];
  tool_call_id?: string;
}

/** The rendered window with its receipt. */
export interface Context {
  agent: string;
  _rev: string;
  context_window: number;
  messages: ChatMessage[];
  tokens: Tokens;
  manifest: Json;
  context_digest: string;
}

/** A message as it was appended. */
export interface Message {
  seq: number;
  id: string;
  kind: string;
  copy_of: string | null;
  role: Role;
  content: string;
  meta: Json;
  token_estimate: number;
  created_at: string;
  digest: string;
  chain: string;
  in_queue: boolean;
  evicted_batch_id: string | null;
}

/** What happened to a memory, in figures. */
export interface Event {
  id: string;
  type: string;
  ts: string;
  details: Json;
}
