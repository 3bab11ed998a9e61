"""The claims of "Inference Fundamentals" against measurement: a slope, an interval, a verdict.

    cost.py      on the two-stage cost model
    fleet.py     on the fleet simulator
    observed.py  on calls as a client saw them (calls.py): recorded ones, or those that endpoint.py
                 sends by plan.py

They give rows (model.py) by the rules of judge.py, on the slopes and intervals of fit.py.

Each claim may fail: what would make it fail is a named constant in judge.py.
"""
