"""Holds the tools of `vctx tools` against the packages of OpenAI and Anthropic, and our `memory` against Anthropic's own; fails with the first
thing that they do not take.

Usage: accept.py PROGRAM SOCKET
"""

import copy
import json
import subprocess
import sys
import tempfile
import uuid

import httpx2 as httpx
from anthropic import Anthropic
from anthropic.lib._parse._transform import transform_schema
from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool
from anthropic.types import Message
from anthropic.types.tool_union_param import ToolUnionParam
from openai import OpenAI
from openai.lib._pydantic import _ensure_strict_json_schema
from openai.types.chat import ChatCompletionToolParam
from openai.types.responses import FunctionTool, FunctionToolParam
from pydantic import TypeAdapter

DIALECTS = ["vctx", "memgpt", "anthropic", "ues"]


def check(condition, what):
    if not condition:
        raise SystemExit(f"not taken: {what}")


def tools(program, socket, dialect, form, strict):
    command = [program, "tools", "--socket", socket, "--format", form, "--dialect", dialect] + (["--strict"] if strict else [])
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Sent:
    """Keeps what a client sends and answers it."""

    def __init__(self, answer):
        self.body = None
        self.answer = answer

    def __call__(self, request):
        self.body = json.loads(request.content)
        return httpx.Response(200, json=self.answer)

    def client(self):
        return httpx.Client(transport=httpx.MockTransport(self))


def openai_strict(schema, name):
    """The package's own rules for strict schemas, applied to ours, change nothing."""
    check(_ensure_strict_json_schema(copy.deepcopy(schema), path=(), root=schema) == schema, f"{name} is not strict")


def arguments_of(schema):
    """Arguments as a model that is held to the schema may write them: null wherever it may."""
    if "anyOf" in schema:
        return arguments_of(schema["anyOf"][0])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "null" in kinds:
        return None
    if "enum" in schema:
        return schema["enum"][0]
    return {
        "object": lambda: {name: arguments_of(inner) for name, inner in schema["properties"].items()},
        "array": lambda: [arguments_of(schema["items"])],
        "string": lambda: "text",
        "integer": lambda: 1,
        "number": lambda: 0.5,
        "boolean": lambda: True,
    }[kinds[0]]()


def openai_chat(listed, strict):
    for tool in listed:
        TypeAdapter(ChatCompletionToolParam).validate_python(tool)
        function = tool["function"]
        if strict:
            check(function["strict"] is True, function["name"])
            openai_strict(function["parameters"], function["name"])
    first = listed[0]["function"]
    given = json.dumps(arguments_of(first["parameters"])) if strict else "{}"
    call = {"id": "call_1", "type": "function", "function": {"name": first["name"], "arguments": given}}
    sent = Sent({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": None, "tool_calls": [call]}}],
    })
    client = OpenAI(api_key="none", base_url="http://none", http_client=sent.client())
    messages = [{"role": "user", "content": "Hello"}]
    if strict:
        # The method `parse` refuses tools that are not strict, and parses the arguments in the
        # answer.
        done = client.chat.completions.parse(model="m", messages=messages, tools=listed)
        check(done.choices[0].message.tool_calls[0].function.parsed_arguments == json.loads(given), first["name"])
    else:
        client.chat.completions.create(model="m", messages=messages, tools=listed)
    check(sent.body["tools"] == listed, "the tools arrive as they were given")


def openai_responses(listed, strict):
    for tool in listed:
        TypeAdapter(FunctionToolParam).validate_python(tool, strict=True)
        FunctionTool.model_validate(tool, strict=True)
        check(tool["strict"] is strict, tool["name"])
        if strict:
            openai_strict(tool["parameters"], tool["name"])
    sent = Sent({
        "id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [], "parallel_tool_calls": True,
        "tool_choice": "auto", "tools": listed,
    })
    client = OpenAI(api_key="none", base_url="http://none", http_client=sent.client())
    done = client.responses.create(model="m", input="Hello", tools=listed)
    check(sent.body["tools"] == listed, "the tools arrive as they were given")
    check([tool.name for tool in done.tools] == [tool["name"] for tool in listed], "the tools come back")


def bare(schema):
    """A schema without what only people read, and without the type of what is listed value by value."""
    if isinstance(schema, dict):
        needless = {"description", "title"} | ({"type"} if "enum" in schema else set())
        return {name: bare(inner) for name, inner in schema.items() if name not in needless or isinstance(inner, dict)}
    return [bare(inner) for inner in schema] if isinstance(schema, list) else schema


def anthropic(listed, strict):
    for tool in listed:
        TypeAdapter(ToolUnionParam).validate_python(tool)
        if strict:
            check(tool["strict"] is True, tool["name"])
            if "input_schema" in tool:
                ours = tool["input_schema"]
                check(bare(transform_schema(copy.deepcopy(ours))) == bare(ours), f"{tool['name']} has what strict tools have not")
    answer = {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "stop_sequence": None,
        "content": [{"type": "text", "text": "Hello"}], "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    sent = Sent(answer)
    client = Anthropic(api_key="none", base_url="http://none", http_client=sent.client())
    done = client.messages.create(model="m", max_tokens=16, messages=[{"role": "user", "content": "Hello"}], tools=listed)
    check(isinstance(done, Message) and sent.body["tools"] == listed, "the tools arrive as they were given")


class Ours(BetaAbstractMemoryTool):
    """The memory of an agent of ours behind Anthropic's interface."""

    def __init__(self, socket, agent):
        super().__init__()
        self.client = httpx.Client(transport=httpx.HTTPTransport(uds=socket), base_url="http://vctx")
        made = self.client.put(f"/v1/agents/{agent}", json={"context_window": 8192})
        check(made.status_code == 201, made.text)
        self.path = f"/v1/agents/{agent}/tools/memory"

    def ask(self, command):
        headers = {"idempotency-key": str(uuid.uuid4()), "if-match": "*"}
        answer = self.client.post(self.path, json=command.model_dump(exclude_none=True), headers=headers)
        told = answer.json()
        if answer.status_code != 200:
            raise ToolError(told["text"])
        return told["result"]["text"]

    view = create = str_replace = insert = delete = rename = ask


# Commands to which both implementations must give the same answer. The files end with a newline,
# because Anthropic's implementation adds one at an insert.
SAME = [
    {"command": "create", "path": "/memories/notes.txt", "file_text": "Hello World\nThis is line two\n"},
    {"command": "create", "path": "/memories/notes.txt", "file_text": "again"},
    {"command": "view", "path": "/memories/notes.txt"},
    {"command": "view", "path": "/memories/notes.txt", "view_range": [2, 2]},
    {"command": "view", "path": "/memories/notes.txt", "view_range": [2, -1]},
    {"command": "view", "path": "/memories/gone.txt"},
    {"command": "str_replace", "path": "/memories/notes.txt", "old_str": "two", "new_str": "2\nand three"},
    {"command": "str_replace", "path": "/memories/notes.txt", "old_str": "nowhere", "new_str": "x"},
    {"command": "str_replace", "path": "/memories/notes.txt", "old_str": "l", "new_str": "x"},
    {"command": "str_replace", "path": "/memories/gone.txt", "old_str": "a", "new_str": "b"},
    {"command": "insert", "path": "/memories/notes.txt", "insert_line": 0, "insert_text": "First\n"},
    {"command": "insert", "path": "/memories/notes.txt", "insert_line": 4, "insert_text": "Last"},
    {"command": "view", "path": "/memories/notes.txt"},
    {"command": "create", "path": "/memories/trips/2024/elba.md", "file_text": "Pier 4.\n"},
    {"command": "create", "path": "/memories/to do (now).md", "file_text": "Zürich\n"},
    {"command": "view", "path": "/memories/trips/2024/elba.md"},
    {"command": "create", "path": "/memories/trips", "file_text": "x"},
    {"command": "rename", "old_path": "/memories/trips", "new_path": "/memories/journeys/old"},
    {"command": "view", "path": "/memories/journeys/old/2024/elba.md"},
    {"command": "view", "path": "/memories/trips/2024/elba.md"},
    {"command": "rename", "old_path": "/memories/notes.txt", "new_path": "/memories/journeys"},
    {"command": "rename", "old_path": "/memories/gone.txt", "new_path": "/memories/x"},
    {"command": "delete", "path": "/memories/journeys"},
    {"command": "delete", "path": "/memories/journeys"},
    {"command": "view", "path": "/memories/to do (now).md"},
]


def told(tool, command):
    try:
        return True, tool.call(command)
    except ToolError as error:
        return False, error.content if isinstance(error.content, str) else error.content[0]["text"]


def beside(socket):
    ours = Ours(socket, "beside")
    with tempfile.TemporaryDirectory() as directory:
        theirs = BetaLocalFilesystemMemoryTool(base_path=directory)
        for command in SAME:
            (fine, text), (expected_fine, expected) = told(ours, command), told(theirs, command)
            # The documented refusals begin with `Error: `, which the package expects its caller to
            # add.
            text, expected = text.removeprefix("Error: "), expected.removeprefix("Error: ")
            check((fine, text) == (expected_fine, expected), f"{command}: {text!r} instead of {expected!r}")
        # Only the names of a listing are compared: Anthropic's implementation shows file-system
        # sizes of directories and ends the first line differently.
        for path in ["/memories", "/memories/"]:
            (_, text), (_, expected) = (told(tool, {"command": "view", "path": path}) for tool in (ours, theirs))
            names = lambda listing: [line.split("\t")[1].replace("//", "/").rstrip("/") for line in listing.splitlines()[1:]]
            check(names(text) == names(expected), f"{path}: {text!r} instead of {expected!r}")
        for command in [
            {"command": "view", "path": "/memories/../etc/passwd"},
            {"command": "delete", "path": "/memories"},
            {"command": "insert", "path": "/memories/to do (now).md", "insert_line": 7, "insert_text": "x"},
        ]:
            check(not told(ours, command)[0] and not told(theirs, command)[0], f"{command} is refused")


def main():
    program, socket = sys.argv[1:]
    takers = {"openai-chat": openai_chat, "openai-responses": openai_responses, "anthropic": anthropic}
    for dialect in DIALECTS:
        for form, take in takers.items():
            for strict in (False, True):
                take(tools(program, socket, dialect, form, strict), strict)
                print(f"{dialect} {form} {'strict' if strict else 'plain'} ok", flush=True)
    beside(socket)
    print("the memory tool beside Anthropic's own ok", flush=True)


main()
