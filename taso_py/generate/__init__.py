"""The generator: discovers rules by enumeration, proves them and keeps the few that matter."""
