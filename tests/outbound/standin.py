"""Model servers on loopback addresses with TLS, in the forms of three APIs, and an HTTP proxy.

    standin.py DIR

DIR has `cert.pem` and `key.pem` of the server. The program prints two ports, of the server and of
the proxy, and ends when its input ends. It appends each request to DIR/requests.jsonl: path,
headers and body. A word in braces in the newest text of the user says how the server behaves. The
model `summary` answers with the text of DIR/summary.txt.
"""

import json
import os
import re
import socket
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIR = sys.argv[1]
LOCK = threading.Lock()
SEEN = {}
CALL = {"block_id": "human", "content": "Ada sails.", "policy": {"mode": "append"}}
TEXT = ["Noted: ", "you sail."]
# Statuses of refused requests, with the body that providers send.
REFUSED = {
    "unauthorized": (401, {"error": {"type": "authentication_error", "message": "invalid key"}}),
    "missing": (404, {"error": {"type": "not_found_error", "message": "no such model"}}),
    "broken": (500, {"error": {"type": "api_error", "message": "boom"}}),
    "overloaded": (529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}),
    "poor": (429, {"error": {"code": "insufficient_quota", "message": "no money"}}),
    "busy": (429, {"error": {"type": "rate_limit_error", "message": "slow down"}}),
}


def note(path, headers, body):
    with LOCK, open(os.path.join(DIR, "requests.jsonl"), "a") as log:
        line = {"path": path, "headers": {k.lower(): v for k, v in headers.items()}, "body": body}
        log.write(json.dumps(line) + "\n")


def wants_call(body):
    """Says whether the model calls its tool: once, after the newest text of the user."""
    text = json.dumps(body.get("messages") or body.get("input"))
    return bool(body.get("tools")) and "call_1" not in text


def chat(body):
    usage = {"prompt_tokens": 30, "completion_tokens": 7}
    if wants_call(body):
        function = {"name": "store_core", "arguments": json.dumps(CALL)}
        message = {"role": "assistant", "content": None,
                   "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
        reason = "tool_calls"
    else:
        message, reason = {"role": "assistant", "content": "".join(TEXT)}, "stop"
    if body["model"] == "summary":
        with open(os.path.join(DIR, "summary.txt")) as summary:
            message["content"] = summary.read()
    if not body.get("stream"):
        return {"object": "chat.completion", "usage": usage,
                "choices": [{"index": 0, "message": message, "finish_reason": reason}]}

    def chunk(delta, finish=None):
        return {"object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    events = [chunk({"role": "assistant", "content": ""})]
    if reason == "stop":
        events += [chunk({"content": text}) for text in TEXT]
    else:
        call = message["tool_calls"][0]
        arguments = call["function"]["arguments"]
        first = dict(call, index=0, function={"name": "store_core", "arguments": ""})
        events.append(chunk({"tool_calls": [first]}))
        for piece in (arguments[:9], arguments[9:]):
            events.append(chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}))
    events += [chunk({}, reason), {"object": "chat.completion.chunk", "choices": [], "usage": usage}]
    return [("", event) for event in events] + [("", "[DONE]")]


def responses(body):
    usage = {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37}
    if wants_call(body):
        items = [{"type": "reasoning", "id": "rs_1", "summary": []},
                 {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "store_core",
                  "arguments": json.dumps(CALL), "status": "completed"}]
    else:
        content = [{"type": "output_text", "text": "".join(TEXT), "annotations": []}]
        items = [{"type": "message", "id": "msg_1", "role": "assistant", "content": content}]
    whole = {"id": "resp_1", "object": "response", "status": "completed", "error": None,
             "incomplete_details": None, "output": items, "usage": usage}
    if not body.get("stream"):
        return whole
    events = [{"type": "response.created", "response": dict(whole, output=[], usage=None)}]
    for index, item in enumerate(items):
        begun = dict(item, arguments="") if item["type"] == "function_call" else dict(item)
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        if item["type"] == "function_call":
            for piece in (item["arguments"][:9], item["arguments"][9:]):
                events.append({"type": "response.function_call_arguments.delta",
                               "output_index": index, "item_id": "fc_1", "delta": piece})
        if item["type"] == "message":
            for text in TEXT:
                events.append({"type": "response.output_text.delta", "output_index": index,
                               "content_index": 0, "item_id": "msg_1", "delta": text})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return [(event["type"], event) for event in events]


def messages(body):
    usage = {"input_tokens": 20, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 6,
             "output_tokens": 7}
    if wants_call(body):
        blocks = [{"type": "thinking", "thinking": "Hm.", "signature": "s"},
                  {"type": "tool_use", "id": "call_1", "name": "store_core", "input": CALL}]
        reason = "tool_use"
    else:
        blocks, reason = [{"type": "text", "text": "".join(TEXT)}], "end_turn"
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "content": blocks,
             "stop_reason": reason, "stop_sequence": None, "usage": usage}
    if not body.get("stream"):
        return whole
    begun = dict(whole, content=[], stop_reason=None, usage=dict(usage, output_tokens=1))
    events = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        first = {"text": dict(block, text=""), "thinking": dict(block, thinking="", signature=""),
                 "tool_use": dict(block, input={})}[block["type"]]
        events.append({"type": "content_block_start", "index": index, "content_block": first})
        deltas = {"text": [{"type": "text_delta", "text": text} for text in TEXT],
                  "thinking": [{"type": "thinking_delta", "thinking": "Hm."}],
                  "tool_use": [{"type": "input_json_delta", "partial_json": piece}
                               for piece in ("", json.dumps(CALL)[:9], json.dumps(CALL)[9:])]}
        events += [{"type": "content_block_delta", "index": index, "delta": delta}
                   for delta in deltas[block["type"]]]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    return [(event["type"], event) for event in events]


def embeddings(body):
    vectors = [[float(len(text) % 7 + 1), 1.0, 0.5] for text in body["input"]]
    return {"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]}


FORMS = {"/v1/chat/completions": chat, "/v1/responses": responses, "/v1/messages": messages,
         "/v1/embeddings": embeddings}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, kind, text, headers=()):
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        note(self.path, self.headers, body)
        words = re.findall(r"\{([a-z-]+)\}", json.dumps(body.get("messages") or body.get("input")))
        manner = words[-1] if words else ""
        with LOCK:
            SEEN[manner] = count = SEEN.get(manner, 0) + 1
        if manner in REFUSED:
            status, said = REFUSED[manner]
            headers = [("retry-after", "3600")] if manner == "busy" else []
            return self.say(status, "application/json", json.dumps(said), headers)
        if manner.startswith("wait") and count == 1:
            pause = {"wait-seconds": "1", "wait-date": self.date_time_string(time.time() + 2),
                     "wait-plain": None}[manner]
            headers = [("retry-after", pause)] if pause else []
            error = {"error": {"type": "rate_limit_error", "message": "slow down"}}
            return self.say(429, "application/json", json.dumps(error), headers)
        if manner == "page":
            return self.say(200, "text/html; charset=utf-8", "<html>Log in</html>")
        answer = FORMS[self.path.split("?")[0]](body)
        if isinstance(answer, dict):
            return self.say(200, "application/json", json.dumps(answer))
        lines = []
        for name, event in answer:
            data = event if isinstance(event, str) else json.dumps(event)
            lines.append((f"event: {name}\n" if name else "") + f"data: {data}\n\n")
        text = "".join(lines)
        if manner == "cut":
            # The head promises the whole answer, and half of it follows.
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text[: len(text) // 2].encode())
            self.close_connection = True
            return None
        return self.say(200, "text/event-stream", text)


class Proxy(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        note("CONNECT " + self.path, self.headers, None)
        # All names are those of this machine.
        port = self.path.rsplit(":", 1)[1]
        upstream = socket.create_connection(("localhost", int(port)))
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")

        def pass_on(a, b):
            try:
                while data := a.recv(65536):
                    b.sendall(data)
                b.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        back = threading.Thread(target=pass_on, args=(upstream, self.connection))
        back.start()
        pass_on(self.connection, upstream)
        back.join()
        self.close_connection = True


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Says nothing: a client that trusts no certificate, or stops, is a part of the tests."""


def serve(handler, context=None):
    server = Server(("127.0.0.1", 0), handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True,
                                            do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(os.path.join(DIR, "cert.pem"), os.path.join(DIR, "key.pem"))
print(serve(Model, context), serve(Proxy), flush=True)
sys.stdin.read()
