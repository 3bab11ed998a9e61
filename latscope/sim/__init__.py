"""The embedded server: scenario in, timed bytes out, and the truth of where the time went.

    documents.scenarios -> engine.plan -> play (stamps every step) -> truth

It runs in its own process on the loopback interface only, speaks the four APIs through the same
encoders the fixtures are checked with, and shares no code with the estimator it is a judge of.
"""
