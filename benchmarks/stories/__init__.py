"""The runbooks over stories: simulated weeks, healthy or with one cause of trouble, and whether
`latscope check` says what is wrong.

    world.py      what a week is made of, and what a cause changes in it
    traffic.py    whose calls come when: sessions, turns, a batch job, other tenants
    service.py    admission, caches that expire, the fleet simulator: what became of each call
    way.py        the hop and the network: when bytes arrive
    client.py     connections, the event loop, the reader: the recording
    rightly.py    which runbooks are right of which cause, written down before half B was drawn
    judge.py      recordings -> attribution -> columns -> findings, as `latscope check` does it
    report.py     tables, docs/accuracy.md
"""
