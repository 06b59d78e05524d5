"""Tells Schemathesis which refusals of valid requests are right, as no schema states the rule."""

import json
import re

import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData
from schemathesis.specs.openapi.checks import positive_data_acceptance

# Rules between attributes, and rules about the state of the memory: the part of the request's label
# that names the operation, and a pattern for the refusal.
RULES = [
    # A number such as 3.0 is an integer in JSON Schema; the server reads integers without a point.
    ("", r"invalid type: floating point `-?[0-9.e+]+`"),
    # A page token is made by the server for one question.
    ("", r"^page_token: "),
    # Letters and digits of all scripts are words; patterns of JSON Schema have no class for them.
    ("", r"^\w+: no word to search for|^\w+: more than \d+ quoted phrases"),
    # An empty revision says that a document is not in the archive; other calls do not take it.
    ("", r"^_rev: empty"),
    # A pattern does not know how many days a month has.
    ("", r"^\w+: use YYYY-MM-DD|^at: not a valid time"),
    # The names of the time zones are those of the IANA database.
    ("/v1/agents/{agent}", r"^zone: no such time zone"),
    # The lines of an export are no JSON value.
    ("/import", r""),
    # How many agents have had a name is in the database.
    ("PUT /v1/agents/{agent}", r"^incarnation: "),
    # Further rules between attributes, and about what the memory holds.
    ("PATCH /v1/agents/{agent}", r"^body: give context_window|^tools: give digest and"),
    ("/forget", r"^forget: name the item to forget in one way|^match: use \d+ to"),
    ("/forget", r"^no such message or text"),
    ("/events", r"^content: use 1 to"),
    ("/schedules/", r"^every_ms: give either every_ms or at"),
    ("/why", r"^text: give the text of a fact, or only the `turn`"),
    ("/trace", r"^(from|id): this agent has no such"),
    ("trace_memory", r"^from: this agent has no such"),
    ("/quarantine", r"^id: this agent has no such"),
    ("/ledger", r"^the memory changed since"),
    ("/move", r"^to: only one database is configured"),
    ("/reindex", r"^embedder\.next: |^metric: |^action: "),
    ("/answer", r"^tool_calls: two calls share an id"),
    ("/runs", r"^input|^message\.|^tools: |^options"),
    ("/prompts", r"^tools: |^options[.:]"),
    # The limits of labels, which the schema of every tool would repeat.
    ("", r"\b(labels\.)?(user|session|tags|metadata)\b.*: (use 1 to \d+ bytes|more than|name: use|longer than)"),
    ("/context", r"^question: |^documents\[\d+\]\.(text|id): |^documents: "),
    ("/archive", r"^limit: use 1 to 100$|^originals: "),
    ("append_fifo", r"^message\.(content: empty|tool_calls?: |tool_call_id: )|^cites"),
    ("write_recall", r"^entries\[\d+\]\.content: "),
    ("search_recall", r"^similarity_min: only the mode vector accepts it|^mode: "),
    ("search_archival", r"^(query_text|query_vector|mode|fusion): "),
    ("ingest_archival", r"^(chunks|document|embeddings|splitter|dimension|metric|model_id)\b"),
    ("ingest_archival", r"^(embedding_version|late_chunking|part|provenance)\b"),
    ("ingest_archival", r"^(freshness_ts|labels): leave it out with `delete`"),
    ("store_core", r"^content: must be empty when policy.mode is delete"),
    ("tools/memory", r": (is missing|no argument of `|must be /memories|leads out of|takes \d+)"),
    ("tools/memory", r"(/memories itself stays|: empty)|^(view_range|insert_line|path|old_str): "),
    ("tools/memory", r"^send a fresh Idempotency-Key|^to: |^new_path: "),
    ("core_memory_replace", r"^old_content: "),
    ("memory_replace", r"^old_str: "),
    ("memory_insert", r"^insert_line: "),
    ("conversation_search", r"^roles: more than one"),
    ("/completions", r"^messages(\[\d+\])?(\.content|\.tool_call|: has no|: ends with)"),
    ("/responses", r"^input(\[\d+\])?\b"),
    # Only the type json_schema has further fields.
    ("/responses", r"^text\.format\.(name|description|schema|strict): "),
    ("/rename", r"^name: an agent is given at most"),
    ("/embeddings", r"^model: |^dimensions: "),
    ("/v1/messages", r"^messages(\[\d+\])?(\.content|: has no|: ends with)|^tools|^agent: "),
    ("/v1/messages", r"^message\.|^model: longer|^tool_choice\.name|^messages\."),
    # Here too, a number such as 3.0 is an integer of JSON Schema.
    ("/v1/messages", r"^max_tokens: "),
    ("{agent}/messages", r"^messages\[\d+\]\.(tool_calls?|tool_call_id|content|said_at|name)\b"),
    ("/completions", r"^message\.|^tools|^model: longer|^agent: "),
    ("/responses", r"^message\.|^tools|^model: longer|^agent: |^previous_response_id: "),
]


def is_known(label: str, answer: dict, sent: object) -> bool:
    """Says whether a refusal follows from a rule that no schema can say."""
    # The forms of OpenAI and Anthropic have the text in `error.message`.
    detail = answer["error"]["message"] if isinstance(answer["error"], dict) else answer["detail"]
    if any(part in label and re.search(rule, detail) for part, rule in RULES):
        return True
    # A limit in bytes; the schema counts characters.
    wide = not json.dumps(sent, ensure_ascii=False, default=str).isascii()
    return wide and re.search(r"\d+ bytes", detail) is not None


@schemathesis.check
def valid_is_taken(ctx, response, case):
    """Reports valid requests that the server refuses, except for the rules above."""
    try:
        positive_data_acceptance(ctx, response, case)
    except RejectedPositiveData:
        sent = [case.body, case.query, case.path_parameters]
        if response.status_code != 400 or not is_known(case.operation.label, response.json(), sent):
            raise


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Changes calls after which the agent of all other requests would refuse or wait, or that wait."""
    if case.path.endswith("/changes") and (case.query or {}).get("wait") in (None, True, "true"):
        case.query = {**(case.query or {}), "wait": "false"}
    body = case.body
    if case.method == "DELETE" and case.path == "/v1/agents/{agent}":
        if (case.path_parameters or {}).get("agent") == "ada":
            case.path_parameters["agent"] = "eve"
    if not isinstance(body, dict):
        return
    if case.path.endswith("/forget") and body.get("all"):
        if (case.path_parameters or {}).get("agent") == "ada":
            case.path_parameters["agent"] = "eve"
    # A runtime that records a prompt holds the agent as long as it asks for.
    lease_ms = body.get("lease_ms")
    if case.path.endswith("/prompts") and (
        lease_ms is None or type(lease_ms) is int and 1_000 < lease_ms <= 3_600_000
    ):
        case.body["lease_ms"] = 1_000


@schemathesis.serializer("application/x-ndjson")
def lines_of_json(ctx, value):
    """Sends the lines of an export as they are."""
    return value if isinstance(value, bytes) else str(value).encode()
