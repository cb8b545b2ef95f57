"""What other distributions may use of the PostgreSQL store: opening a database that is not the knowledge base's own."""

from __future__ import annotations

from kb_postgres.engine import PostgresEngine as PostgresEngine
