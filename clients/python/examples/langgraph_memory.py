"""One turn with LangGraph's own memory on vctx: checkpoints of the conversation, and a store of what the model notes."""

import argparse
from typing import Any

import httpx2
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import vctx
from vctx.langgraph import VctxSaver, VctxStore

# Maximum number of steps in one turn, which stops a model that never yields.
STEPS_MAX = 16


def chat_model(name: str, model_socket: str | None) -> ChatOpenAI:
    """LangChain's chat model, directly or over a Unix socket."""
    if model_socket is None:
        return ChatOpenAI(model=name)
    http_client = httpx2.Client(transport=httpx2.HTTPTransport(uds=model_socket))
    return ChatOpenAI(model=name, api_key=lambda: "none", base_url="http://model/v1", http_client=http_client)


def graph(model: Any, store: VctxStore, saver: VctxSaver, person: str) -> Any:
    """ask → (tools → ask)* → end."""

    @tool
    def store_core(block_id: str, content: str) -> str:
        """Notes a fact about the person, under a name."""
        store.put(("people", person), block_id, {"fact": content})
        return "Done."

    asked = model.bind_tools([store_core])

    def ask(state: MessagesState) -> Any:
        facts = [item.value["fact"] for item in store.search(("people", person))]
        known = {"role": "system", "content": "What you know of the person: " + " ".join(facts)}
        return {"messages": [asked.invoke([known, *state["messages"]])]}

    steps = StateGraph(MessagesState)
    steps.add_node("ask", ask)
    steps.add_node("tools", ToolNode([store_core]))
    steps.add_edge(START, "ask")
    steps.add_conditional_edges("ask", tools_condition)
    steps.add_edge("tools", "ask")
    return steps.compile(checkpointer=saver, store=store)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("said")
    options.add_argument("--model", default="gpt-4.1-mini")
    options.add_argument("--model-socket")
    options.add_argument("--socket", help="of vctx")
    options.add_argument("--agent", default="harbour")
    given = options.parse_args()
    with vctx.Client(given.socket) as client:
        store, saver = VctxStore(client, given.agent), VctxSaver(client, f"{given.agent}-checkpoints")
        turns = graph(chat_model(given.model, given.model_socket), store, saver, "ada")
        config = {"configurable": {"thread_id": "harbour"}, "recursion_limit": STEPS_MAX}
        done = turns.invoke({"messages": [{"role": "user", "content": given.said}]}, config)
        print(done["messages"][-1].content)


if __name__ == "__main__":
    main()
