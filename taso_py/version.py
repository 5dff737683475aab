"""The version, in a module of its own so that reading it imports nothing."""

VERSION = "0.1.0"
