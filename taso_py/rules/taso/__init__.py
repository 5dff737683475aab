"""TASO's rules, read from its file and written as laws, which are proved like any others."""
