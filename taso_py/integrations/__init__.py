"""Where other programs take `superopt` in. Each module imports the program that it serves; none imports it."""
