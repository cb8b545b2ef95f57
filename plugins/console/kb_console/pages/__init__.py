"""The console's own pages, a module each."""
