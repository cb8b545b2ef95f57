"""Documents: notes and files in, listed, shown, tagged, removed."""
