"""Dialects: frames to events and back, one file an API; and what is masked before anything leaves.

`DIALECTS` is the table; `detect` picks a row by path and content.
"""
