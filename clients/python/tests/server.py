"""The real server for tests: the one on `VCTX_SOCKET`, or one that is started (`VCTX_PROGRAM`, else `target/debug/vctx`)."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import vctx

ROOT = Path(__file__).resolve().parents[3]
# Longest wait for a started server, on a busy machine.
READY_S_MAX = 60.0


class Server:
    """A server of this test's own, or a given one."""

    def __init__(self) -> None:
        given = os.environ.get("VCTX_SOCKET")
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self.program = os.environ.get("VCTX_PROGRAM") or str(ROOT / "target/debug/vctx")
        if given:
            self.socket = Path(given)
            return
        self._directory = tempfile.TemporaryDirectory(prefix="v.", dir="/tmp")
        home = Path(self._directory.name)
        self.socket = home / "vctx.sock"
        command = [self.program, "serve", "--socket", str(self.socket), "--data-dir", str(home / "data")]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + READY_S_MAX
        with vctx.Client(self.socket) as client:
            while True:
                try:
                    client.readyz()
                    return
                except vctx.Problem as problem:
                    if time.monotonic() > until:
                        raise AssertionError(f"{self.program} does not serve: {problem}") from problem
                    time.sleep(0.05)

    def close(self) -> None:
        """Ends what was started."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
        if self._directory is not None:
            self._directory.cleanup()
