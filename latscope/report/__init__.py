"""Attributions for people and programs: a view of plain data first, then one file a format.

`view` and `summary` say what is shown, `terminal` how it looks, `jsonview` is the contract. A
renderer returns text; only the command line writes it.
"""
