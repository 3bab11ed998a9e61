"""One call as understood: `build` turns a recording into its frozen Timeline."""

from latscope.timeline.build import build
from latscope.timeline.model import Arrival, Exchange, Failure, Hold, Path, Phase, Timeline

__all__ = ["Arrival", "Exchange", "Failure", "Hold", "Path", "Phase", "Timeline", "build"]
