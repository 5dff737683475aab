"""False laws made from true ones, and what tells them apart: mutants, random equations, and an oracle for both."""
