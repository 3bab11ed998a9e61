"""One call as understood: `build` turns a recording into its frozen Timeline."""

from latscope.timeline.build import build, build_steps
from latscope.timeline.model import (
    Arrival,
    Evidence,
    Exchange,
    Failure,
    Hold,
    Marker,
    Path,
    Phase,
    Timeline,
)

__all__ = [
    "Arrival",
    "Evidence",
    "Exchange",
    "Failure",
    "Hold",
    "Marker",
    "Path",
    "Phase",
    "Timeline",
    "build",
    "build_steps",
]
