"""What is PostgreSQL's own: connections and locks, full text by GIN, vectors by pgvector."""
