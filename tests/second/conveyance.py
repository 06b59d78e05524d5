"""Does the sum of `vctx conveyance --json` again from its raw counts alone, with nothing of the first program.

Reads the answer from stdin; writes {"c": number or null, "missing": [terms], "terms": {...}} to stdout.
"""

import json
import math
import sys

ALLOWED_MS = {"recall": 250.0, "archival": 750.0, "core_write": 100.0}


def share(counts):
    return counts["numerator"] / counts["denominator"] if counts["denominator"] else None


def percentile(path):
    """The end of the bucket that holds the 99th percentile, or the longest duration if that is shorter."""
    samples = sum(count for _, count in path["buckets"])
    if samples == 0:
        return None
    rank = math.ceil(samples * 99 / 100)
    seen = 0
    for end, count in path["buckets"]:
        seen += count
        if seen >= rank:
            return path["longest_ms"] if end is None else min(end, path["longest_ms"])
    raise AssertionError("buckets and samples disagree")


def both(a, b, join):
    return None if a is None or b is None else join(a, b)


def conservation(term, considered):
    """Messages that are there and have a place, over the numbers given out."""
    messages = term["messages"]
    placed = messages["queued"] + messages["logged"] + messages["copies"]
    appended = considered["messages_next_seq"] - considered["messages_from_seq"]
    return share({"numerator": min(messages["stored"], placed), "denominator": appended})


def time_cost(term):
    costs = {name: percentile(path) for name, path in term["paths"].items()}
    if set(costs) != set(ALLOWED_MS) or None in costs.values():
        return None
    return max(max(p99 / ALLOWED_MS[name] for name, p99 in costs.items()), 0.05)


def main():
    answer = json.load(sys.stdin)
    told = answer["terms"]
    terms = {name: share(told[name]) for name in ("R", "H", "L", "I", "A")}
    kept = conservation(told["W"], answer["considered"])
    terms["W"] = both(kept, share(told["W"]["recall_hit_rate"]), lambda a, b: a * b)
    terms["G"] = both(share(told["G"]["guards"]), share(told["G"]["audited_writes"]), min)
    terms["T"] = time_cost(told["T"])
    missing = sorted(name for name, value in terms.items() if value is None)
    if answer["zero"]:
        c = 0.0
    elif missing:
        c = None
    else:
        context = sum(terms[name] for name in ("L", "I", "A", "G")) / 4
        c = terms["W"] * terms["R"] * terms["H"] / terms["T"] * context**1.7
    json.dump({"c": c, "missing": missing, "terms": terms}, sys.stdout)


main()
