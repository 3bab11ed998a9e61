"""Around a production client: instrument it, and the rest happens off the caller's path."""

from latscope.middleware.compose import flush, instrument, recent, uninstrument
from latscope.middleware.context import tags, turn

__all__ = ["flush", "instrument", "recent", "tags", "turn", "uninstrument"]
