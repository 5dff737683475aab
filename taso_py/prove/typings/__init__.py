"""The typings of a rule: which numbers of axes, sizes, flags and element types both sides have; trusted, too."""
