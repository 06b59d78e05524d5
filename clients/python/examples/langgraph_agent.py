"""One turn with LangGraph: one node sends the window of vctx to the model, another calls memory tools, until the model answers."""

import argparse
import json
from typing import Any, TypedDict

import httpx2
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

import vctx

# Maximum number of steps in one turn, which stops a model that never yields.
STEPS_MAX = 16


class Turn(TypedDict):
    """The state of the graph; everything else is in the memory."""

    answer: AIMessage


def chat_model(name: str, model_socket: str | None) -> ChatOpenAI:
    """LangChain's chat model, directly or over a Unix socket."""
    if model_socket is None:
        return ChatOpenAI(model=name)
    http_client = httpx2.Client(transport=httpx2.HTTPTransport(uds=model_socket))
    return ChatOpenAI(model=name, api_key=lambda: "none", base_url="http://model/v1", http_client=http_client)


def graph(agent: vctx.Agent, model: Any) -> Any:
    """ask → (tools → ask)* → end."""

    def ask(_: Turn) -> Turn:
        answer: AIMessage = model.invoke(agent.context()["messages"])
        calls = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": json.dumps(call["args"])}}
            for call in answer.tool_calls
        ]
        agent.append_fifo(str(answer.content), "assistant", tool_calls=calls or None)
        return {"answer": answer}

    def tools(turn: Turn) -> Turn:
        for call in turn["answer"].tool_calls:
            agent.tell(call["name"], call["args"], capture=call["id"])
        return turn

    def after(turn: Turn) -> str:
        return "tools" if turn["answer"].tool_calls else END

    steps = StateGraph(Turn)
    steps.add_node("ask", ask)
    steps.add_node("tools", tools)
    steps.add_edge(START, "ask")
    steps.add_conditional_edges("ask", after, ["tools", END])
    steps.add_edge("tools", "ask")
    return steps.compile()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("said")
    options.add_argument("--model", default="gpt-4.1-mini")
    options.add_argument("--model-socket")
    options.add_argument("--socket", help="of vctx")
    options.add_argument("--agent", default="harbour")
    given = options.parse_args()
    with vctx.Client(given.socket) as client:
        agent = client.create_agent(given.agent, 32_768, system="You keep notes in your memory.")
        tools = client.tools("openai-chat")["tools"]
        model = chat_model(given.model, given.model_socket).bind_tools(tools)
        agent.append_fifo(given.said, "user")
        done = graph(agent, model).invoke({"answer": AIMessage("")}, {"recursion_limit": STEPS_MAX})
        print(done["answer"].content)


if __name__ == "__main__":
    main()
