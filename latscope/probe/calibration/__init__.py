"""Differential probes of one endpoint: planned, priced, sent, and read as arms of an experiment."""
