"""The kernel: what a proof rests on.  Elements of both sides as sums in normal form, and what Z3 is asked of them."""
