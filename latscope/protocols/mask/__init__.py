"""The mask: a recording with its content taken out and everything attribution needs left in.

It runs off the hot path and before any sink (law 7). Bodies are masked byte for byte (`body`,
`payload`, `vocabulary`), so lengths and offsets stay and a masked recording gives the same
attribution; requests become skeletons (`request`); headers, path and names pass an allow-list
(`head`). Masking what is masked changes nothing.
"""

from collections.abc import Collection
from dataclasses import replace

from latscope.protocols.mask.body import mask_body
from latscope.protocols.mask.head import mask_headers, mask_name, mask_note, mask_target
from latscope.protocols.mask.request import skeleton, without_secrets
from latscope.recording import Attempt, Recording
from latscope.steps import Steps, finish


def mask(
    recording: Recording, *, keep_headers: Collection[str] = (), keep_content: bool = False
) -> Recording:
    """The recording as it may be kept: `masked`, without what lives in memory only.

    keep_headers: further response headers to keep, never credentials or cookies. keep_content:
    keeps what was asked and answered; identities (`user`, `safety_identifier`, `prompt_cache_key`,
    `metadata`) and credentials go even then. Never raises on any body or request.
    """
    return finish(mask_steps(recording, keep_headers=keep_headers, keep_content=keep_content))


def mask_steps(
    recording: Recording, *, keep_headers: Collection[str] = (), keep_content: bool = False
) -> Steps[Recording]:
    """`mask`, a step at a time (one event of a stream, one JSON body), for a worker that must not
    hold the interpreter long; the masked recording is the generator's return value."""
    attempts: list[Attempt] = []
    for attempt in recording.attempts:
        body = attempt.body
        if body is not None:
            body = yield from mask_body(body, keep_content=keep_content)
        attempts.append(_mask_attempt(attempt, body, keep_headers))
    request = recording.request
    if request is not None:
        request = without_secrets(request) if keep_content else skeleton(request)
    return replace(
        recording,
        target=mask_target(recording.target),
        end=replace(recording.end, detail=mask_name(recording.end.detail)),
        attempts=tuple(attempts),
        request=request,
        sent=None,
        context=None,
        broken=tuple(map(mask_note, recording.broken)),
        masked=True,
    )


def _mask_attempt(attempt: Attempt, body: bytes | None, keep_headers: Collection[str]) -> Attempt:
    encoding = attempt.encoding
    return replace(
        attempt,
        body=body,
        wire=None,
        tcp_raw=(),
        headers=mask_headers(attempt.headers, keep_headers),
        encoding=encoding and encoding[:32],
        error_type=mask_name(attempt.error_type),
    )
