"""What the short names of an attribution say in plain words."""

MARKS: dict[str, str] = {
    "measured": "●",
    "reported": "◆",
    "probed": "▲",
    "inferred": "~",
    "bound": "?",
}
"""One mark a provenance, strongest first."""

MEANING: dict[str, str] = {
    "measured": "measured here",
    "reported": "reported by the server",
    "probed": "probed",
    "inferred": "inferred from history",
    "bound": "only bounds are known",
}

PHASES: dict[str, str] = {
    "pool_wait": "a free connection",
    "connect": "the connection (DNS and TCP)",
    "tls": "the TLS handshake",
    "upload": "the request to be sent",
    "headers": "the response headers",
    "first_token": "the first token",
    "stream": "the rest of the stream",
}
"""What a call was waiting for when it failed."""

FLAGS: dict[str, str] = {
    "inline_think": "the text holds a literal <think>: visible output may be reasoning",
    "unknown_dialect": "no API known here speaks like this: bytes and frames only",
    "unknown_events": "some events of the stream were not understood",
    "frame_truncated": "a frame was longer than the decoder keeps",
    "one_read": "the whole answer came in one read: something on the way may have kept it",
    "several_choices": "several choices: first token of any, last of all",
    "several_prefills": "the server ran tools in between: later prefills count as decode.tools",
    "shared_connection": "the connection carried other streams too: reads may be theirs",
    "address_failed": "connecting failed before it succeeded: one address did not answer",
    "resolver_step": "connecting took just over a multiple of 5 s: a name server did not answer",
    "no_tcp_info": "the kernel said nothing of the connection: round trip and loss are unknown",
    "connection_unseen": "the transport shows nothing of its connections: their time is unknown",
    "left_running": "left over HTTP/2 without a word to the server: it may go on generating",
    "capture_incomplete": "the recording is incomplete: see `broken` in it",
    "hidden_reasoning": "reasoning was generated and not shown: the silence holds decode too",
    "replayed_answer": "a gateway answered from its cache: usage and figures are an earlier call's",
    "reported_contradicts_clock": "the server's own figures contradict this clock: not trusted",
}
"""Flags a reader may not know; any other prints with its underscores as blanks."""


CAUSES: dict[str, str] = {
    "unsplit": "the generation or something on the way, not told apart from here",
    "hold": "the tokens existed, something on the way kept them",
    "decode": "no token was made",
    "consumer": "the caller did not ask for more",
    "": "cause unknown",
}
"""Why a stream stood still, where the short word is not plain."""


OF = {2: "two", 3: "three", 4: "four", 5: "five"}
"""How many candidates, where their names do not fit."""


def flag(name: str) -> str:
    return FLAGS.get(name, name.replace("_", " "))


def phase(name: str) -> str:
    return PHASES.get(name, name.replace("_", " "))
