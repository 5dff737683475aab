"""Tests of `taso_py.approximate`."""
