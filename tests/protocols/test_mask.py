"""The mask of bodies: what stays, what goes, byte for byte."""

import json
import re

import pytest

from latscope.protocols.mask.body import mask_body


def masked(body: bytes | str, *, keep_content: bool = False) -> str:
    """The body after masking, checked to have kept its length."""
    raw = body.encode() if isinstance(body, str) else body
    steps = mask_body(raw, keep_content=keep_content)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: bytes = done.value
            assert len(result) == len(raw)
            return result.decode()


PAYLOADS = {
    "a chat chunk keeps its structure": (
        '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":17,"model":"m/x-1",'
        '"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},'
        '"finish_reason":"stop"}],"usage":null,"system_fingerprint":"fp_1"}',
        '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":17,"model":"m/x-1",'
        '"choices":[{"index":0,"delta":{"role":"assistant","content":"xx"},'
        '"finish_reason":"stop"}],"usage":null,"system_fingerprint":"fp_1"}',
    ),
    "empty stays empty": ('{"text":""}', '{"text":""}'),
    "escapes and multi-byte letters keep their bytes": (
        r'{"text":"a\"\n\u00e9é"}',
        '{"text":"' + "x" * 13 + '"}',
    ),
    "white space between tokens stays": ('{ "text" :\t"ab" }', '{ "text" :\t"xx" }'),
    "a word of the wrong shape goes": ('{"type":"Bob is ill"}', '{"type":"xxxxxxxxxx"}'),
    "a role is one of the known ones": ('{"role":"bob"}', '{"role":"xxx"}'),
    "an unknown key goes, with all below it": (
        '{"Bob":{"type":"ill","n":407,"ok":true},"t":1.5}',
        '{"xxx":{"xxxx":"xxx","x":111,"xx":true},"x":1.1}',
    ),
    "an unknown key of a literal goes": ('{"Bob":null}', '{"xxx":null}'),
    "numbers stay": ('{"index":42,"created":-1.5e3}', '{"index":42,"created":-1.5e3}'),
    "arrays of numbers go": ('{"output":[40,-0.5,6e-7]}', '{"output":[11,-1.1,1e-1]}'),
    "a number alone goes": ("407", "111"),
    "a string alone goes": ('"Bob"', '"xxx"'),
    "strings in arrays go": ('["a",["type"],true,null]', '["x",["xxxx"],true,null]'),
    "arguments go, numbers and keys too": (
        '{"arguments":{"Bob":[407,{"id":"x7"}]},"input":{"a":1.25}}',
        '{"arguments":{"xxx":[111,{"xx":"xx"}]},"input":{"x":1.11}}',
    ),
    "a number under arguments goes": ('{"arguments":407}', '{"arguments":111}'),
    "logprobs keep the names of their lists": (
        '{"logprobs":{"content":[{"token":"Hi","bytes":[72],"logprob":-0.5}],"Bob":1}}',
        '{"logprobs":{"content":[{"xxxxx":"xx","xxxxx":[11],"xxxxxxx":-1.1}],"xxx":1}}',
    ),
    "top logprobs of completions are keyed by token": (
        '{"logprobs":{"top_logprobs":[{"Bob":-0.25}],"tokens":["Bob"]}}',
        '{"logprobs":{"top_logprobs":[{"xxx":-1.11}],"tokens":["xxx"]}}',
    ),
    "audio tells whether there is any": (
        '{"delta":{"audio":{"transcript":"Bob","data":"","id":"a7"}}}',
        '{"delta":{"audio":{"transcript":"xxx","data":"","xx":"xx"}}}',
    ),
    "usage keeps every figure, new ones too": (
        '{"usage":{"prompt_tokens":9,"new_details":{"gold-tokens":2},"took":"0.5","who":"Bob",'
        '"a b":3,"per_step":[40]}}',
        '{"usage":{"prompt_tokens":9,"new_details":{"gold-tokens":2},"took":"0.5","who":"xxx",'
        '"xxx":1,"per_step":[11]}}',
    ),
    "timings stay": (
        '{"metrics":{"queue_time_ms":0.02},"timings":{"prompt_ms":7},"x_groq":{"id":"req_1"}}',
        '{"metrics":{"queue_time_ms":0.02},"timings":{"prompt_ms":7},"x_groq":{"id":"req_1"}}',
    ),
    "an error keeps type and code": (
        '{"error":{"type":"invalid_request_error","code":"bad","message":"Bob","param":"p"}}',
        '{"error":{"type":"invalid_request_error","code":"bad","message":"xxx","param":"x"}}',
    ),
    "an error may be named by its HTTP phrase only": (
        '{"error":{"type":"Not Found","code":"Bob is ill"}}',
        '{"error":{"type":"Not Found","code":"xxxxxxxxxx"}}',
    ),
    "an error that is the payload": (
        '{"code":"server_error","message":"Bob","type":"error"}',
        '{"code":"server_error","message":"xxx","type":"error"}',
    ),
    "an error that only looks like one": (
        '{"code":"busy","message":"Bob","type":"BadRequestError"}',
        '{"code":"busy","message":"xxx","type":"BadRequestError"}',
    ),
    "code is content elsewhere": ('{"type":"done","code":"abc"}', '{"type":"done","code":"xxx"}'),
    "ids of the response stay, those of items go": (
        '{"response":{"id":"resp_1","output":[{"id":"msg_1","call_id":"c"}]},"item_id":"msg_1"}',
        '{"response":{"id":"resp_1","output":[{"id":"xxxxx","call_id":"x"}]},"item_id":"xxxxx"}',
    ),
    "ids a server drew stay, to tell calls apart": (
        '{"tool_calls":[{"id":"call_0a1b2c3d4e5f6g7h"},{"id":"call_for_the_weather0"}]}',
        '{"tool_calls":[{"id":"call_0a1b2c3d4e5f6g7h"},{"id":"xxxxxxxxxxxxxxxxxxxxx"}]}',
    ),
    "a stop reason of a choice is the caller's stop string": (
        '{"stop_reason":"end_turn","choices":[{"stop_reason":"bob"}]}',
        '{"stop_reason":"end_turn","choices":[{"stop_reason":"xxx"}]}',
    ),
    "identities go": (
        '{"user":"bob","safety_identifier":"b","prompt_cache_key":"k","metadata":{"user_id":"b"}}',
        '{"user":"xxx","safety_identifier":"x","prompt_cache_key":"x","metadata":{"xxxxxxx":"x"}}',
    ),
    "think tags stay": ('{"text":"a<think>b</think> c"}', '{"text":"x<think>x</think>xx"}'),
    "think tags as Go escapes them stay": (
        r'{"text":"a\u003cthink\u003eb"}',
        r'{"text":"x\u003cthink\u003ex"}',
    ),
    "an escaped backslash makes no tag": (
        r'{"text":"\\u003cthink\\u003e"}',
        '{"text":"' + "x" * 19 + '"}',
    ),
    "think alone is a word": ('{"text":"I think"}', '{"text":"xxxxxxx"}'),
    "no JSON goes whole": ('{"text": "a b" ', "xxxxxxxx xx xx "),
    "the end of a stream stays": ("[DONE]", "[DONE]"),
}


@pytest.mark.parametrize(("payload", "expected"), PAYLOADS.values(), ids=PAYLOADS.keys())
def test_payload(payload: str, expected: str) -> None:
    """The same as a JSON body, in an SSE event and on a JSON line."""
    assert masked(payload) == expected
    assert masked(f"data: {payload}\n\n") == f"data: {expected}\n\n"
    assert masked(f"{payload}\n{payload}\n") == f"{expected}\n{expected}\n"


CHUNK = '{"choices":[{"index":0,"delta":{"content":"Bob"}}]}'
COVERED = CHUNK.replace("Bob", "xxx")
FRAMINGS = {
    "LF": ("data: P\n\ndata: P\n\n", "data: M\n\ndata: M\n\n"),
    "CRLF": ("data: P\r\n\r\ndata: P\r\n\r\n", "data: M\r\n\r\ndata: M\r\n\r\n"),
    "CR": ("data: P\r\rdata: P\r\r", "data: M\r\rdata: M\r\r"),
    "mixed": ("data: P\n\r\ndata: P\r\n\r", "data: M\n\r\ndata: M\r\n\r"),
    "byte order mark": ("\ufeffdata: P\n\n", "\ufeffdata: M\n\n"),
    "byte order mark before JSON": ("\ufeffP", "\ufeffM"),
    "no space": ("data:P\n\n", "data:M\n\n"),
    "no blank line at the end": ("data: P", "data: M"),
    "known event name": ("event: message_start\ndata: P\n\n", "event: message_start\ndata: M\n\n"),
    "Responses event name": (
        "event: response.output_text.delta\ndata: P\n\n",
        "event: response.output_text.delta\ndata: M\n\n",
    ),
    "unknown event name": ("event: Bob\ndata: P\n\n", "event: xxx\ndata: M\n\n"),
    "id": ("id: Bob 7\ndata: P\n\n", "id: xxx x\ndata: M\n\n"),
    "empty id": ("id:\ndata: P\n\n", "id:\ndata: M\n\n"),
    "retry": ("retry: 3000\n\n", "retry: 3000\n\n"),
    "retry that is no time": ("retry: 4111111111111111\n\n", "retry: xxxxxxxxxxxxxxxx\n\n"),
    "fields without colon": ("data\nevent\n\n", "data\nevent\n\n"),
    "keep-alives": (
        ":\n\n: keep-alive\n\n: OPENROUTER PROCESSING\n\n:ping\n\n",
        ":\n\n: keep-alive\n\n: OPENROUTER PROCESSING\n\n:ping\n\n",
    ),
    "a comment that talks": (": Bob is ill\n\n", ": xxx xx xxx\n\n"),
    "a comment inside an event": ("data: P\n: Bob\n\n", "data: M\n: xxx\n\n"),
    "an unknown field": ("bob: ill\n\n", "xxxx xxx\n\n"),
    "two documents in one event": ("data: P\ndata: P\n\n", "data: M\ndata: M\n\n"),
    "no JSON between JSON": ("data: Bob\n\ndata: P\n\n", "data: xxx\n\ndata: M\n\n"),
    "JSON lines": ("P\nP\n", "M\nM\n"),
    "a cut JSON line": ('P\n{"text":"Bo', "M\nxxxxxxxxxxx"),
    "a page": ("<p class=a>Bob\n<br>", "xx xxxxxxxxxxx\nxxxx"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("body", "expected"), FRAMINGS.values(), ids=FRAMINGS.keys())
def test_framing(body: str, expected: str) -> None:
    """Framing stays, payloads are masked where they lie."""
    sent = re.sub(r"\bP\b", CHUNK, body)
    assert masked(sent) == re.sub(r"\bM\b", COVERED, expected)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_one_document_over_several_data_lines(end: str) -> None:
    """The lines of an event are one payload; a comment between them is none of it."""
    body = f'data: {{"text":{end}: ping{end}data: "Bob","type":{end}data:"a.b"}}{end}{end}'
    assert masked(body) == body.replace("Bob", "xxx")


def test_data_lines_that_make_no_json_together_are_masked_one_by_one() -> None:
    """A string broken over two lines is no JSON: both halves go."""
    assert masked('data: {"text":"Bo\ndata: b"}\n\n') == "data: xxxxxxxxxxx\ndata: xxx\n\n"


def test_a_pretty_printed_body_is_one_document() -> None:
    """Line ends inside a JSON body are its white space."""
    body = json.dumps({"object": "chat.completion", "choices": [{"text": "Bob"}]}, indent=2)
    assert masked(body) == body.replace("Bob", "xxx")


def test_bytes_that_are_no_text() -> None:
    """Every byte that is not white space goes."""
    assert masked(b"\xff\x00\xfe \n\x80") == "xxx \nx"


SECRETS = {
    "text stays": ('{"choices":[{"text":"Bob","new":[407]}]}',) * 2,
    "lines that are no JSON stay": ("event: Bob\nid: 7\n: Bob\ndata: Bob\n\n",) * 2,
    "identities go": ('{"user":"bob","a":"b"}', '{"user":"xxx","a":"b"}'),
    "what is below them too": ('{"metadata":{"k":["bob",7]}}', '{"metadata":{"x":["xxx",1]}}'),
    "credentials by their key": (
        '{"tools":[{"authorization":"abc","server_url":"u"}],"token":"t"}',
        '{"tools":[{"authorization":"xxx","server_url":"u"}],"token":"t"}',
    ),
    "credentials by their look": (
        '{"message":"wrong key sk-abcdefghijklmnop0123, Bearer abcdefghijklm=="}',
        '{"message":"wrong key xxxxxxxxxxxxxxxxxxxxxxx, Bearer xxxxxxxxxxxxxxx"}',
    ),
    "credentials in what is no JSON": (
        'data: {"api_key": "abc", "text": "Bob"',
        'data: {"api_key": "xxx", "text": "Bob"',
    ),
}


@pytest.mark.parametrize(("body", "expected"), SECRETS.values(), ids=SECRETS.keys())
def test_kept_content(body: str, expected: str) -> None:
    """`keep_content` keeps text, and no identity and no credential."""
    assert masked(body, keep_content=True) == expected


def test_a_long_body_is_masked_in_steps() -> None:
    """So that a worker can pause: a body of a thousand values is never one step."""
    body = json.dumps([{"index": index, "text": "Bob"} for index in range(1000)]).encode()
    assert len(list(mask_body(body))) > 5
    assert len(list(mask_body(body, keep_content=True))) > 5


STREAM = [
    '{"type":"response.output_text.delta","sequence_number":4,"item_id":"m","delta":"Bob"}',
    '{"type":"response.output_text.delta","sequence_number":5,"item_id":"m","delta":"<think>"}',
    '{"type":"response.output_text.delta","sequence_number":6,"item_id":"mm","delta":""}',
    '{"type":"response.output_text.delta","sequence_number":,"item_id":"m","delta":"Bob"}',
    '{"type":"response.output_text.delta","sequence_number":7,"item_id":"m","delta":"B\u00f6b"}',
    '{"type":"response.output_text.delta","sequence_number":8,"item_id":"m","delta":"Bob"} ',
    '{"type":"response.output_text.delta","sequence_number":08,"item_id":"m","delta":"Bob"}',
    '{"type":"response.output_text.delta","sequence_number":9,"item_id":"m","delta":"\\ud800"}',
    '{"type":"response.output_text.delta","sequence_number":9,"item_id":"m","delta":"4"}',
    r'{"type":"response.output_text.delta","sequence_number":9,"item_id":"m","delta":"\u003cthink>"}',
    '{"type":"response.output_text.done","sequence_number":9,"item_id":"m","text":"Bob"}',
    '{"type":"ping"}',
    "[" + '{"index":1},' * 40 + "0]",
]


@pytest.mark.parametrize("at", range(len(STREAM)))
def test_a_chunk_is_masked_the_same_after_any_other(at: int) -> None:
    """What is remembered of one chunk never changes what becomes of the next."""
    for after in (*STREAM, STREAM[0]):
        alone = masked(f"data: {STREAM[at]}\n\n")
        both = masked(f"data: {after}\n\ndata: {STREAM[at]}\n\n")
        assert both == masked(f"data: {after}\n\n") + alone
