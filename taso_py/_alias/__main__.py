"""`python -m superopt`."""

from taso_py.__main__ import run

run()
