"""What is enumerated: atoms and templates, their values over finite fields, and which of them are equal."""
