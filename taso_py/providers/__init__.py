"""Execution providers: which there are, what each keeps of what it promises, and which one a model is fastest on."""
