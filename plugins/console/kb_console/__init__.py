"""The console: pages in a browser over the operations that HTTP has."""
