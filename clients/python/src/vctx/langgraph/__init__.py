"""LangGraph on vctx: `VctxStore` keeps a graph's long-term memory, `VctxSaver` its checkpoints.

Each item and each checkpoint is one document of the archive of an agent, which the store or the
saver has for itself. It is durable when the call returns, survives a restart of the server, and is
read by its name exactly as it was written. Both work with threads and with asyncio; an asynchronous
call runs in a thread of the loop's pool.

What JSON does not hold exactly is refused by the store (`ValueError`). A time to live is refused,
too (`NotImplementedError`). A document has at most 2 MiB, which is about 1.5 MB of a checkpoint
after compression.
"""

from ._saver import VctxSaver
from ._store import VctxStore

__all__ = ["VctxSaver", "VctxStore"]
