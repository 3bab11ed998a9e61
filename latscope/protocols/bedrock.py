"""What Amazon Bedrock puts around a vendor's own events: `{"bytes": "<base64>", "p": "abc"}`.

InvokeModelWithResponseStream sends each as an event-stream message named `chunk`, its `p` filler
that hides the length (PayloadPart in the Bedrock Runtime API reference).
"""

from base64 import b64decode

from latscope.protocols.fields import as_map, as_str, parse
from latscope.wire.frames import Frame

CHUNK = "chunk"


def inside(payload: bytes) -> tuple[str, bytes] | None:
    """The base64 text of a chunk's payload and the vendor's event it stands for; null where the
    payload is no such thing."""
    text = as_str(as_map(parse(payload)).get("bytes"))
    try:
        return (text, b64decode(text, validate=True)) if text else None
    except ValueError:
        return None


def unwrapped(frame: Frame) -> Frame:
    """The frame as the vendor itself would have sent it; any other frame as it is."""
    found = inside(frame.data) if frame.name == CHUNK else None
    return frame if found is None else frame._replace(name="", data=found[1])
