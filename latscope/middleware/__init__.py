"""Around a production client: instrument it, and the rest happens off the caller's path."""

from latscope.middleware.compose import flush, instrument, pause, recent, resume, uninstrument
from latscope.middleware.context import tags, turn

__all__ = ["flush", "instrument", "pause", "recent", "resume", "tags", "turn", "uninstrument"]
