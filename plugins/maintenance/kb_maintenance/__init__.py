"""Export and import, backup and restore, reindexing."""
