#!/usr/bin/env python3
"""Compares the rows of an export with the ledger in it, without any code of vctx.

Usage: verify_export.py EXPORT [PUBLIC_KEY]. Prints each difference; the exit code is 1 if there are
any. The rules are those of docs/decisions/0032-ledger.md. With a public key, the program openssl
checks the signatures of the ledger's head and of the file.
"""

import base64
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

LETTERS = {
    "core_memory": "c", "core_versions": "v", "messages": "m", "recall_log": "r", "recall_vectors": "n",
    "archival_manifests": "a", "archival_docs": "d", "cites": "k", "derived_from": "f", "prompts": "p",
    "tool_sets": "t", "context_packs": "x", "idempotency": "i", "schedules": "s", "memory_events": "e",
}
# Version of the list, the mark of a move, and rows that stay in their database.
NOT_EXPORTED = "2ygboh"
END = {"answer_seq", "counted_permille", "duration_ms", "ended_at", "finish", "usage", "variance_flag"}


class Fraction(float):
    """A number with a fraction, written as it was read."""


def canonical(value):
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical(k)}:{canonical(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return value.text if isinstance(value, Fraction) else json.dumps(value, ensure_ascii=False)


def fraction(text):
    number = Fraction(text)
    number.text = text
    return number


def short(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:16]).decode().rstrip("=")


def vector(row):
    components = struct.pack(f"<{len(row['embedding'])}d", *map(float, row["embedding"]))
    digest = hashlib.sha256(row.get("salt", "").encode() + b"\0" + components).digest()
    return base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")


def names(*parts):
    return short("\0".join(parts))


def identity(kind, row):
    if kind in ("core_memory", "memory_events"):
        return ""
    if kind == "derived_from":
        return names(canonical({n: row[n] for n in ("chunk", "version", "message", "before") if n in row}))
    return {
        "core_versions": lambda: str(row["version"]), "prompts": lambda: str(row["turn"]),
        "messages": lambda: str(row["seq"]), "recall_log": lambda: str(row["seq"]),
        "recall_vectors": lambda: f"{row['seq']}.{row['passage']}",
        "archival_manifests": lambda: names(row["doc_id"]),
        "archival_docs": lambda: names(row["doc_id"], row["chunk_id"]),
        "cites": lambda: names(row["message"], row["doc_id"], row["chunk_id"]),
        "tool_sets": lambda: row["digest"], "context_packs": lambda: row["digest"], "schedules": lambda: names(row["name"]),
        "idempotency": lambda: names(row["key"], str(row.get("part", ""))),
    }[kind]()


def items(kind, row, salts):
    covered = {name: value for name, value in row.items() if value is not None}
    for left_out in {"recall_log": ["at_ms"], "archival_docs": ["embedding"]}.get(kind, []):
        covered.pop(left_out, None)
    if kind == "core_memory" and covered.get("released") == []:
        del covered["released"]
    if kind == "idempotency":
        covered["response"] = {n: v for n, v in covered["response"].items() if n != "_rev"}
    if kind in ("recall_log", "recall_vectors") and salts.get(row["seq"]):
        covered["salt"] = salts[row["seq"]]
    end = {name: covered.pop(name) for name in END & covered.keys()} if kind == "prompts" else {}
    yield LETTERS[kind] + identity(kind, row), short(canonical(covered))
    if end:
        yield "q" + identity(kind, row), short(canonical(end))


def base64_sha256(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def signed(proof, key, entries, digest):
    """Returns what is wrong with the signed head in an export."""
    if not proof:
        return ["there is no signed head"]
    head, text = proof["head"], proof["note"].split("\n\n")[0] + "\n"
    leaf = base64_sha256("vctx leaf 1\0" + canonical([proof["agent"], head["n"], head["hash"]]))
    root = canonical({"before": proof["before"], "leaves": proof["leaves"]})
    if leaf not in proof["leaves"] or text.split("\n")[2] != base64_sha256("vctx checkpoint 2\0" + root):
        return ["the checkpoint does not cover the signed head"]
    if entries.get(head["n"], {}).get("hash") != head["hash"]:
        return [f"entry {head['n']} is not the entry that was signed"]
    if key is None:
        return []
    if max(entries) > head["n"]:
        return [f"the entries after {head['n']} are not signed"]
    # A key also vouches for the key that it names as its successor.
    for note in proof.get("rotations", []):
        word, former, new = (note.split("\n")[4] + "  ").split(" ")[:3]
        if word == "key" and former == key and verified(note, former) and verified(note, new):
            key = new
    if not verified(proof["note"], key):
        return ["the signature of the checkpoint does not hold"]
    about = f"{key.split('+')[0]}\nvctx export\n{digest}\n"
    file = proof.get("file", "")
    return [] if file.startswith(about + "\n") and verified(file, key) else ["the file is not the one that was signed"]


def verified(note, key):
    """Returns whether a key signed a note."""
    text, lines = note.split("\n\n")
    name, key_id, public = key.split("+", 2)
    signatures = [base64.b64decode(line.split(" ")[2]) for line in lines.split("\n") if line.startswith(f"\u2014 {name} ")]
    signature = next((one[4:] for one in signatures if one[:4].hex() == key_id), b"")
    der = bytes.fromhex("302a300506032b6570032100") + base64.b64decode(public)[1:]
    with tempfile.TemporaryDirectory() as directory:
        for name, content in (("k", der), ("s", signature), ("t", f"{text}\n".encode())):
            pathlib.Path(directory, name).write_bytes(content)
        command = "openssl pkeyutl -verify -pubin -keyform DER -inkey k -rawin -in t -sigfile s"
        done = subprocess.run(command.split(), cwd=directory, capture_output=True, check=False)
    return done.returncode == 0


def main(path, key=None):
    found, events, entries, salts, wrong, sealed_as = {}, [], {}, {}, [], ""
    vectors, known, proof = {}, {}, None
    file = hashlib.sha256()
    for line in open(path, encoding="utf-8"):
        value = json.loads(line, parse_float=fraction)
        sealed_as = value.get("sealed_as", sealed_as)
        proof = value.get("checkpoint", proof)
        kind, row = value.get("in"), value.get("row")
        # The first line and all rows; the lines after them are the trailer and the signed head.
        if kind or "format" in value:
            file.update(line.encode())
        if kind == "messages":
            salts[row["seq"]] = row["salt"]
        if kind == "memory_events" and "n" in row:
            entries[row["n"]] = row
        elif kind == "memory_events":
            events.append(next(items(kind, row, salts))[1])
        elif kind:
            found.update(items(kind, row, salts))
        if row and row.get("embedding") and kind == "archival_docs":
            vectors[identity(kind, row)] = vector(row)
    expected, head = {}, hashlib.sha256(b"vctx ledger 1\0" + sealed_as.encode()).hexdigest()
    for n in range(1, max(entries, default=0) + 1):
        entry = entries.get(n, {"rows": []})
        text = canonical({name: entry.get(name) for name in ("type", "ts", "details", "rows")})
        if entry["rows"][:1] == ["2"]:
            text = hashlib.sha256(text.encode()).hexdigest()
        head = hashlib.sha256(f"{head} {n} {text}".encode()).hexdigest()
        if entry.get("hash") != head:
            wrong.append(f"entry {n} is missing or does not follow from the entry before it")
        for item in entry["rows"]:
            name, *digest = item.split(" ")
            # The digest of the row that a statement found, and changed.
            before = digest.pop()[1:] if digest and digest[-1].startswith("<") else None
            if before is not None and (not re.fullmatch("[A-Za-z0-9_-]{22}", before) or not digest or name[0] in "ew"):
                wrong.append(f"entry {n} lists a row that cannot be read: {item}")
            elif before is not None and name[0] not in NOT_EXPORTED and before != expected.get(name, [None])[0]:
                wrong.append(f"{name}: entry {n} changed {before} instead of {expected.get(name, [None])[0]}")
            if name == "e":
                expected.setdefault("e", []).append(digest[0])
            elif name[0] == "w":
                known.setdefault(name[1:], []).append(digest[0])
            elif digest and name[0] not in NOT_EXPORTED:
                expected[name] = digest
            else:
                expected.pop(name, None)
                known.pop(name[1:], None) if name[0] == "d" else None
    if sorted(expected.pop("e", [])) != sorted(events):
        wrong.append("the events are not those that the entries describe")
    for chunk in sorted(vectors.keys() | {one for one in known if f"d{one}" in found}):
        if vectors.get(chunk) not in known.get(chunk, []):
            wrong.append(f"d{chunk}: another vector than the entries list")
    for name in sorted(expected.keys() | found.keys()):
        digest, *until = expected.get(name, [None])
        over = until and name not in found and int(until[0]) <= time.time()
        if found.get(name) != digest and not over:
            wrong.append(f"{name}: {found.get(name)} instead of {digest}")
    wrong += signed(proof, key, entries, file.hexdigest()) if proof or key else []
    print("\n".join(wrong) or f"{len(found)} rows agree with {len(entries)} entries, head {head}")
    return 1 if wrong or not entries else 0


sys.exit(main(*sys.argv[1:]))
