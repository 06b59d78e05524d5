"""The real server for tests, and its scripted model: from the program in `VCTX_PROGRAM`, else `target/debug/vctx`."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import vctx

ROOT = Path(__file__).resolve().parents[3]
# Longest wait until a started program is ready on a busy machine, and the pause between two polls.
READY_S_MAX = 60.0
LOOK_S = 0.02


class Server:
    """A server of this test's own; `settings` are variables of its environment."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = dict(settings or {})
        self.program = os.environ.get("VCTX_PROGRAM") or str(ROOT / "target/debug/vctx")
        self._directory = tempfile.TemporaryDirectory(prefix="v.", dir="/tmp")
        self.home = Path(self._directory.name)
        self.socket, self.model_socket = self.home / "vctx.sock", self.home / "model.sock"
        script = ROOT / "clients/examples/harbour.jsonl"
        self._processes = [self._start("scripted-model", "--socket", self.model_socket, "--script", script)]
        self._processes.append(self._serve())
        until = time.monotonic() + READY_S_MAX
        while not self.model_socket.exists() or not self._ready():
            if time.monotonic() > until:
                raise AssertionError(f"{self.program} does not serve")
            time.sleep(LOOK_S)

    def _serve(self) -> "subprocess.Popen[bytes]":
        return self._start("serve", "--socket", self.socket, "--data-dir", self.home / "data")

    def _start(self, *arguments: object) -> "subprocess.Popen[bytes]":
        model = {"VCTX_CHAT__SOCKET": str(self.model_socket), "VCTX_CHAT__MODEL": "scripted"}
        command = [self.program, *map(str, arguments)]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, stdout=quiet, stderr=quiet, env={**os.environ, **model, **self._settings})

    def _ready(self) -> bool:
        with vctx.Client(self.socket) as client:
            try:
                return bool(client.readyz())
            except vctx.Problem:
                return False

    def kill(self) -> None:
        """Kills the server as a power failure would, and starts it again; does not wait until it is ready."""
        self._processes[-1].kill()
        self._processes[-1].wait()
        self._processes[-1] = self._serve()

    def verify(self) -> None:
        """Fails unless every agent's memory verifies."""
        with vctx.Client(self.socket) as client:
            agents = [row["agent"] for row in client.agents()["agents"]]
        for agent in agents:
            command = [self.program, "verify", "--agent", agent, "--socket", str(self.socket)]
            proof = subprocess.run(command, capture_output=True, text=True)
            if proof.returncode != 0:
                raise AssertionError(f"{agent}: {proof.stdout}\n{proof.stderr}")

    def close(self) -> None:
        """Verifies the memories, then ends the started processes."""
        try:
            self.verify()
        finally:
            for process in reversed(self._processes):
                process.terminate()
                process.wait(30)
            self._directory.cleanup()
