"""Worlds: exact schedules of a server, a path and a client, from which both the recording and the
truth follow. The judge of the attribution, with nothing to be measured in it."""
