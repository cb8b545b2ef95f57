"""Keys, users, organizations and roles, and the record of who changed them. What a key may do is decided by the host."""
