"""Makes the client with threads from the one for asyncio: `unasync.py` writes it, `unasync.py --check` says whether it is up to date."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent / "src" / "vctx"

# Text replacements from asynchronous to synchronous code, applied in this order.
WORDS = [
    (r'"""The calls of the server, for asyncio\. `_client\.py` is made from this file by `unasync\.py`\."""',
     '"""The calls of the server. Made from `_async_client.py` by `unasync.py`; change that one."""'),
    (r"\bAsync(Client|Agent|Transport)\b", r"\1"),
    (r"\bAsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence\b", "Callable, Generator, Iterable, Iterator, Mapping, Sequence"),
    (r"\bAsyncGenerator\[(.*), None\]", r"Generator[\1, None, None]"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\baclosing, asynccontextmanager\b", "closing, contextmanager"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclosing\b", "closing"),
    (r"\bawait ", ""),
]


def made() -> str:
    """The text of `_client.py`."""
    text = (HERE / "_async_client.py").read_text()
    for found, instead in WORDS:
        text = re.sub(found, instead, text)
    return text


def main() -> int:
    target = HERE / "_client.py"
    if "--check" in sys.argv[1:]:
        same = target.read_text() == made()
        if not same:
            print(f"{target} is not what unasync.py makes of _async_client.py: run unasync.py")
        return 0 if same else 1
    target.write_text(made())
    return 0


if __name__ == "__main__":
    sys.exit(main())
