"""Opens the agent that holds the data of an integration with a framework."""

import os

from ._client import Agent, Client
from ._problems import AgentExists

Server = Client | str | os.PathLike[str] | None


def client_of(server: Server) -> Client:
    """The client itself, or one for the socket at a path (`None`: the default socket)."""
    return server if isinstance(server, Client) else Client(server)


def opened(client: Client, name: str, context_window: int, system: str) -> Agent:
    """The agent of this name; it is created if there is none, and keeps its settings if there is one."""
    try:
        return client.create_agent(name, context_window, system=system)
    except AgentExists:
        return client.agent(name)
