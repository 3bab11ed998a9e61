"""vLLM with stamps: what its front end and its scheduler did to each request, and when.

`front` and `engine` run inside vLLM's own processes and use nothing but the standard library and
vLLM; `serve` starts it with them; `calls` makes calls to it; `truth` lays the stamps beside the
recordings; `judge` holds the attributions against them.
"""
