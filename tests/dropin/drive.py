"""Drives the drop-in with OpenAI's own package over a Unix socket; says what went well, one line each, and fails at the first fault."""

import asyncio
import sys

import httpx2
import openai

TURNS = 400
SYSTEM = {"role": "system", "content": "Be brief."}
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}},
}


def client(socket):
    transport = httpx2.HTTPTransport(uds=socket)
    return openai.OpenAI(base_url="http://vctx/v1", api_key="none", http_client=httpx2.Client(transport=transport, timeout=120))


def conversation(vctx):
    """The whole history with every call, every other answer in pieces."""
    history = [SYSTEM]
    for turn in range(TURNS):
        said = f"Turn {turn}: the tide stands at {turn * 7 % 100} and the wind comes from {['north', 'east', 'south', 'west'][turn % 4]}."
        history.append({"role": "user", "content": said})
        ask = {"model": "vctx/python", "messages": history}
        if turn % 2:
            stream = vctx.chat.completions.create(stream=True, stream_options={"include_usage": True}, **ask)
            pieces, reason, usage = [], None, None
            for chunk in stream:
                for choice in chunk.choices:
                    pieces.append(choice.delta.content or "")
                    reason = choice.finish_reason or reason
                usage = chunk.usage or usage
            message = {"role": "assistant", "content": "".join(pieces)}
            assert reason == "stop", reason
        else:
            answer = vctx.chat.completions.create(**ask)
            message = answer.choices[0].message.model_dump()
            usage = answer.usage
            assert answer.choices[0].finish_reason == "stop", answer
        assert message["content"] == f"You said: {said}", (turn, message)
        assert usage is not None and usage.total_tokens > 0, usage
        history.append(message)
    print(f"turns {TURNS}")
    print("streamed ok")
    again = vctx.chat.completions.create(model="vctx/python", messages=history[:-1])
    assert again.choices[0].message.content == history[-1]["content"]


def tools(vctx):
    """Tools of the client, and texts in parts."""
    said = {"role": "user", "content": [{"type": "text", "text": "With tools."}]}
    answer = vctx.chat.completions.create(model="vctx/tools", messages=[SYSTEM, said], tools=[TOOL], tool_choice="auto", temperature=0)
    assert answer.choices[0].message.content == "You said: With tools.", answer
    assert answer.choices[0].message.tool_calls is None, answer
    print("tools ok")


def cancelled(vctx):
    """A stream that is left: what came through is said back, and it goes on."""
    said = {"role": "user", "content": "A long story. " * 40}
    stream = vctx.chat.completions.create(model="vctx/left", messages=[said], stream=True)
    part = ""
    for chunk in stream:
        part += chunk.choices[0].delta.content or ""
        if len(part) > 20:
            break
    stream.close()
    assert part, "nothing came"
    history = [said, {"role": "assistant", "content": part}, {"role": "user", "content": "Are you there?"}]
    answer = vctx.chat.completions.create(model="vctx/left", messages=history)
    assert answer.choices[0].message.content == "You said: Are you there?", answer
    told = answer.model_extra["vctx"]
    assert told == {"agent": "left"}, told
    print("cancelled ok")


def responses(vctx):
    """The responses form, whole and in pieces, on and on by the id of the last answer."""
    first = vctx.responses.create(model="vctx/responses", instructions="Be brief.", input="one")
    assert first.output_text == "You said: one" and first.status == "completed", first
    second = vctx.responses.create(model="vctx/responses", previous_response_id=first.id, input="two")
    assert second.output_text == "You said: two", second
    with vctx.responses.stream(model="vctx/responses", previous_response_id=second.id, input="three") as stream:
        kinds = [event.type for event in stream]
        third = stream.get_final_response()
    assert third.output_text == "You said: three", third
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    history = [{"role": "user", "content": "one"}, *first.output, {"role": "user", "content": "two"}, *second.output]
    history += [{"role": "user", "content": "three"}, *third.output, {"role": "user", "content": "four"}]
    fourth = vctx.responses.create(model="vctx/responses", input=history)
    assert fourth.output_text == "You said: four", fourth
    assert fourth.model_extra["vctx"] == {"agent": "responses"}, fourth.model_extra
    print("responses ok")


def compacted(vctx):
    """A conversation that is compacted by its history and by its last answer, and continues from each compaction."""
    answer = vctx.responses.create(model="vctx/compact", instructions="Be brief.", input="one")
    history = [{"role": "user", "content": "one"}, *answer.output]
    for turn, by_history in enumerate([True, False]):
        by = {"input": history} if by_history else {"previous_response_id": answer.id}
        compaction = vctx.responses.compact(model="vctx/compact", **by)
        kinds = [item.type for item in compaction.output]
        assert compaction.object == "response.compaction" and kinds == ["message"] * (turn + 1) + ["compaction"], compaction
        assert compaction.usage.total_tokens == 0, compaction.usage
        said = f"after compaction {turn}"
        kept = [item.model_dump(exclude_unset=True, warnings=False) for item in compaction.output]
        answer = vctx.responses.create(model="vctx/compact", input=[*kept, {"role": "user", "content": said}])
        assert answer.output_text == f"You said: {said}", answer
        assert answer.model_extra["vctx"] == {"agent": "compact"}, answer.model_extra
    print("compacted ok")


def embedded(vctx):
    """Vectors as lists of floats, which the package asks for in Base64, and as it is told to."""
    model = [model.id for model in vctx.models.list() if not model.id.startswith("vctx/")][1]
    texts = ["The boat lies in the harbour.", "Tea at five."]
    usual = vctx.embeddings.create(model=model, input=texts)
    floats = vctx.embeddings.create(model=model, input=texts, encoding_format="float", dimensions=384)
    vectors = [list(one.embedding) for one in usual.data]
    assert [len(vector) for vector in vectors] == [384, 384] and usual.model == model, usual
    assert [one.index for one in usual.data] == [0, 1] and usual.usage.total_tokens > 5, usual.usage
    for one, other in zip(vectors, floats.data):
        assert all(abs(a - b) < 1e-7 for a, b in zip(one, other.embedding)), "both formats are the same"
    single = vctx.embeddings.create(model=model, input=texts[0], encoding_format="base64")
    assert isinstance(single.data[0].embedding, str), single
    try:
        vctx.embeddings.create(model="text-embedding-3-small", input="tea")
    except openai.BadRequestError as error:
        assert error.param == "model" and model in str(error), error
        print("embedded ok")
    else:
        raise AssertionError("another model's vectors were promised")


def refused(vctx):
    """What cannot be honoured is refused by name."""
    try:
        vctx.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], n=2)
    except openai.BadRequestError as error:
        assert error.param == "n" and error.code == "INVALID_ARGUMENT", error
        print("refused ok")
    else:
        raise AssertionError("two answers were promised")


def models(vctx):
    """Agents are models."""
    ids = [model.id for model in vctx.models.list()]
    assert "vctx/python" in ids and ids[0] == "scripted", ids
    print("models ok")


async def at_once(socket):
    """Several conversations at the same time."""
    transport = httpx2.AsyncHTTPTransport(uds=socket)
    async with openai.AsyncOpenAI(
        base_url="http://vctx/v1", api_key="none", http_client=httpx2.AsyncClient(transport=transport, timeout=120)
    ) as vctx:

        async def talk(number):
            history = []
            for turn in range(5):
                history.append({"role": "user", "content": f"{number} says {turn}"})
                answer = await vctx.chat.completions.create(model="m", messages=history, user=f"user-{number}")
                history.append({"role": "assistant", "content": answer.choices[0].message.content})
                assert history[-1]["content"] == f"You said: {number} says {turn}", history

        await asyncio.gather(*(talk(number) for number in range(8)))
    print("async ok")


def main():
    vctx = client(sys.argv[1])
    conversation(vctx)
    tools(vctx)
    cancelled(vctx)
    responses(vctx)
    compacted(vctx)
    embedded(vctx)
    refused(vctx)
    models(vctx)
    asyncio.run(at_once(sys.argv[1]))


main()
