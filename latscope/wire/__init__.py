"""Wire bytes to frames: server-sent events, AWS event streams, JSON lines, whole bodies; each frame
with its times.

Sans-IO: decoders are fed chunks and the time each arrived, and hold no clock and no socket.
"""
