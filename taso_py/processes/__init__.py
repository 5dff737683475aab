"""Other processes that work: a crew on this machine, or actors on a Ray cluster."""
