"""Every example runs: its real package, the real server, and a model that follows a script."""

import importlib.util
import os
import subprocess
import sys
import unittest
from pathlib import Path

import vctx

from .messages_model import MessagesModel
from .server import ROOT, Server

EXAMPLES = ROOT / "clients/python/examples"
SAID = "I moored the Swallow at pier 4."
NOTED = "Their boat, the Swallow, lies at pier 4."
# For each example: the package that it needs, and the roles of the messages in the queue after its
# run.
NEEDS = {
    "function_calling": ("vctx", ["user", "assistant", "tool", "assistant"]),
    "openai_chat": ("openai", ["user", "assistant", "tool", "assistant"]),
    "openai_agents": ("agents", ["user", "assistant"]),
    "openai_agents_session": ("agents", ["user", "assistant", "tool", "assistant"]),
    "anthropic_tools": ("anthropic", ["user", "assistant", "tool", "assistant"]),
    "langgraph_agent": ("langgraph", ["user", "assistant", "tool", "assistant"]),
    "langgraph_memory": ("langgraph", []),
}


class Examples(unittest.TestCase):
    """Each example runs once, in its own process."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

    def run_example(self, name: str, model_socket: Path) -> None:
        self.run_alone(name, model_socket)
        with vctx.Client(self.server.socket) as client:
            memory = client.agent(f"ex-{name}")
            self.assertEqual(memory.fetch_core("human")["result"]["content"], NOTED)
            self.assertEqual([row["role"] for row in memory.all_messages()], NEEDS[name][1])

    def run_alone(self, name: str, model_socket: Path) -> None:
        package, _ = NEEDS[name]
        if importlib.util.find_spec(package) is None:
            self.skipTest(f"no package {package}: examples/requirements.txt")
        agent = f"ex-{name}"
        command = [sys.executable, str(EXAMPLES / f"{name}.py"), SAID, "--agent", agent]
        command += ["--socket", str(self.server.socket), "--model-socket", str(model_socket)]
        path = os.pathsep.join([str(ROOT / "clients/python/src"), os.environ.get("PYTHONPATH", "")])
        came = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
        self.assertEqual((came.returncode, came.stdout), (0, "Noted: the Swallow lies at pier 4.\n"), came.stderr)

    def test_function_calling(self) -> None:
        self.run_example("function_calling", self.server.model_socket)

    def test_openai_chat(self) -> None:
        self.run_example("openai_chat", self.server.model_socket)

    def test_openai_agents(self) -> None:
        self.run_example("openai_agents", self.server.model_socket)

    def test_langgraph_agent(self) -> None:
        self.run_example("langgraph_agent", self.server.model_socket)

    def test_openai_agents_session(self) -> None:
        self.run_example("openai_agents_session", self.server.model_socket)

    def test_langgraph_memory(self) -> None:
        self.run_alone("langgraph_memory", self.server.model_socket)
        with vctx.Client(self.server.socket) as client:
            documents = list(client.agent("ex-langgraph_memory").all_documents())
            self.assertEqual([row["doc_id"] for row in documents], ["item/people/ada//human"])
            # The input, and a checkpoint for each of the steps start, ask, tools and ask.
            checkpoints = client.agent("ex-langgraph_memory-checkpoints").all_documents("checkpoint/harbour/")
            self.assertEqual(len(list(checkpoints)), 5)

    def test_anthropic_tools(self) -> None:
        socket = self.server.home / "messages.sock"
        with MessagesModel(socket) as model:
            self.run_example("anthropic_tools", socket)
            self.assertEqual(len(model.asked), 2)
            model.shutdown()

    def test_what_the_documents_show_runs_as_it_stands(self) -> None:
        run = self.server.home / "run"
        (run / "vctx").mkdir(parents=True)
        (run / "vctx/vctx.sock").symlink_to(self.server.socket)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python/src"), "XDG_RUNTIME_DIR": str(run)}
        for document in ("README.md", "clients/python/README.md"):
            blocks = [text.split("```")[0] for text in (ROOT / document).read_text().split("```python\n")[1:]]
            # Only the code blocks that import this client run here. The other code blocks of the
            # page are for other clients, and continue from the state that these code blocks leave.
            shown = [text for text in blocks if "import vctx" in text]
            self.assertTrue(shown, f"{document} shows nothing")
            for text in shown:
                command = [sys.executable, "-c", text]
                came = subprocess.run(command, capture_output=True, text=True, env=environment)
                self.assertEqual(came.returncode, 0, f"{document}: {came.stderr}")

    def test_every_example_is_run(self) -> None:
        there = {path.stem for path in EXAMPLES.glob("*.py")}
        self.assertEqual(there, set(NEEDS))
        for name in NEEDS:
            self.assertTrue(hasattr(self, f"test_{name}"), name)


if __name__ == "__main__":
    unittest.main()
