"""The scoreboard: half B of the lab, truth hidden, and how right the attribution was about it.

    cells -> recordings with truth -> profiles learnt from other calls of the cell -> attributions
                                                          -> score, beside five baselines

Run as `python -m benchmarks.attribution`; every run is appended to results/attribution.jsonl and
to docs/accuracy.md, none is taken out.
"""
