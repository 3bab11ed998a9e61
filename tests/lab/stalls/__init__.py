"""Faults on cue: a server that pauses or flushes late, a hop that keeps tokens, a path that is told
to hold or lose packets, a client that does not read; and what truly happened, from all stamps.

    plans.py     which calls, which faults, drawn from a seed
    server.py    the scripted server, which also gives the path its cues
    keeper.py    the hop
    client.py    the captured client, with a round-trip probe beside it
    truth.py     from the stamps: every stall that was, its onset, length and cause
"""
