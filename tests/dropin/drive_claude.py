"""Drives the messages API with Anthropic's own package over a Unix socket; says what went well, one line each, and fails at the first fault."""

import asyncio
import sys

import anthropic
import httpx2

TURNS = 200
SYSTEM = "Be brief."
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}


def client(socket, **options):
    transport = httpx2.HTTPTransport(uds=socket)
    http = httpx2.Client(transport=transport, timeout=120)
    return anthropic.Anthropic(**{"base_url": "http://vctx", "api_key": "none", "http_client": http, **options})


def conversation(vctx):
    """The whole history with every call, every other answer in pieces."""
    history = []
    for turn in range(TURNS):
        said = f"Turn {turn}: the tide stands at {turn * 7 % 100} and the wind comes from {['north', 'east', 'south', 'west'][turn % 4]}."
        history.append({"role": "user", "content": said})
        ask = {"model": "vctx/python", "max_tokens": 256, "system": SYSTEM, "messages": history}
        if turn % 2:
            with vctx.messages.stream(**ask) as stream:
                pieces = "".join(stream.text_stream)
                answer = stream.get_final_message()
            assert pieces == answer.content[0].text, pieces
        else:
            answer = vctx.messages.create(**ask)
        assert answer.content[0].text == f"You said: {said}", (turn, answer)
        assert (answer.stop_reason, answer.role, answer.type) == ("end_turn", "assistant", "message"), answer
        assert answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0, answer
        history.append({"role": "assistant", "content": answer.content})
    print(f"turns {TURNS}")
    kinds = [event.type for event in vctx.messages.create(model="vctx/python", max_tokens=256, messages=history[:-1], stream=True)]
    assert kinds[:2] == ["message_start", "content_block_start"] and kinds[-1] == "message_stop", kinds
    print("streamed ok")


def tools(vctx):
    """Tools of the client, with a call of an earlier turn and its result."""
    call = {"type": "tool_use", "id": "look-1", "name": "look", "input": {"at": "sea"}}
    result = {"type": "tool_result", "tool_use_id": "look-1", "content": [{"type": "text", "text": "rain"}], "is_error": False}
    history = [
        {"role": "user", "content": [{"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "user", "content": [result, {"type": "text", "text": "Well?"}]},
    ]
    ask = {"model": "vctx/tools", "max_tokens": 256, "messages": history, "tools": [TOOL], "tool_choice": {"type": "auto"}}
    # The package has no argument for the temperature, although the API has the field.
    answer = vctx.messages.create(**ask, extra_body={"temperature": 0})
    assert answer.content[0].text == "You said: Well?", answer
    assert answer.model_extra["vctx"] == {"agent": "tools"}, answer
    counted = vctx.messages.count_tokens(model="vctx/tools", messages=history, tools=[TOOL])
    assert counted.input_tokens > 20, counted
    print("tools ok")


def by_path(socket):
    """The agent is named by the address."""
    vctx = client(socket, base_url="http://vctx/v1/agents/ada/anthropic")
    answer = vctx.messages.create(model="claude", max_tokens=256, messages=[{"role": "user", "content": "hi"}])
    assert answer.model_extra["vctx"] == {"agent": "ada"}, answer
    vctx = client(socket, default_headers={"X-Vctx-Agent": "bea"})
    answer = vctx.messages.create(model="claude", max_tokens=256, messages=[{"role": "user", "content": "hi"}])
    assert answer.model_extra["vctx"] == {"agent": "bea"}, answer
    print("path ok")


def refused(vctx):
    """What cannot be honoured is refused by name."""
    try:
        vctx.messages.create(model="m", max_tokens=256, messages=[{"role": "user", "content": "hi"}], extra_body={"top_k": 4})
    except anthropic.BadRequestError as error:
        told = error.body["error"]
        assert told["type"] == "invalid_request_error" and told["param"] == "top_k", error
        print("refused ok")
    else:
        raise AssertionError("top_k was promised")


async def at_once(socket):
    """Several conversations at the same time."""
    transport = httpx2.AsyncHTTPTransport(uds=socket)
    http = httpx2.AsyncClient(transport=transport, timeout=120)
    async with anthropic.AsyncAnthropic(base_url="http://vctx", api_key="none", http_client=http) as vctx:

        async def talk(number):
            history = []
            for turn in range(5):
                history.append({"role": "user", "content": f"{number} says {turn}"})
                answer = await vctx.messages.create(
                    model="m", max_tokens=256, messages=history, metadata={"user_id": f"user-{number}"}
                )
                history.append({"role": "assistant", "content": answer.content})
                assert answer.content[0].text == f"You said: {number} says {turn}", history

        await asyncio.gather(*(talk(number) for number in range(8)))
    print("async ok")


def main():
    vctx = client(sys.argv[1])
    conversation(vctx)
    tools(vctx)
    by_path(sys.argv[1])
    refused(vctx)
    asyncio.run(at_once(sys.argv[1]))


main()
