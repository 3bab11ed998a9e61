"""What watching a stream costs: the bare client, latscope, and the peers, in one run."""
