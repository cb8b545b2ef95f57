"""Research: search here and elsewhere, and add what is worth knowing, on purpose."""
