"""A fleet of batching inference servers, simulated: calls in, the truth about each out.

    arrivals -> routing -> engine (time) -> scheduler (what is computed next), cache (memory)
                                 |
                                 +-> table of truth -> summary, recordings

Everything follows from the settings and a seed; no clock is read. The scheduler is checked step by
step against the real one (scheduler.py says where it differs); what a step costs is a model of five
constants (engine.Cost).
"""
