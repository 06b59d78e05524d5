"""Calls without an answer: their keys are kept, so that a repetition of such a call is no second call."""

import time
from collections.abc import Callable
from dataclasses import dataclass

# Maximum number of calls without an answer that a client keeps; beyond that, the oldest is dropped.
LOST_MAX = 1_000
# Seconds for which a call without an answer is kept.
LOST_S = 600.0


@dataclass(frozen=True)
class LostCall:
    """A writing call without an answer: it may have had its effect."""

    method: str
    path: str
    body: bytes
    key: str
    rev: str | None
    at_s: float


class Lost:
    """The calls of a client that have had no answer."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._calls: list[LostCall] = []

    def note(self, method: str, path: str, body: bytes, key: str, rev: str | None) -> None:
        """Keeps a call that had no answer."""
        if any(call.key == key for call in self._calls):
            return
        self._drop_old()
        if len(self._calls) >= LOST_MAX:
            del self._calls[0]
        self._calls.append(LostCall(method, path, body, key, rev, self._now()))

    def take(self, method: str, path: str, body: bytes) -> str | None:
        """The key of an earlier call with the same content that had no answer; the next repetition gets another key."""
        self._drop_old()
        for at, call in enumerate(self._calls):
            if (call.method, call.path, call.body) == (method, path, body):
                return self._calls.pop(at).key
        return None

    def settled(self, key: str | None) -> None:
        """Forgets a call, which has had its answer."""
        self._calls = [call for call in self._calls if call.key != key]

    def guarded(self, path: str) -> list[LostCall]:
        """The calls below a path that build on a certain revision, oldest first."""
        self._drop_old()
        return [call for call in self._calls if call.path.startswith(f"{path}/") and call.rev not in (None, "*")]

    def _drop_old(self) -> None:
        until = self._now() - LOST_S
        self._calls = [call for call in self._calls if call.at_s > until]
