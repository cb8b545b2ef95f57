"""Search: lexical, by meaning, and both together."""
