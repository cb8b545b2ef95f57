"""The side index: postings and clustered vectors of large organizations, derived from the tables, in files that are mapped.

FTS5 scores every posting of every word, and vec0 compares every vector: both are exact, and linear in the size of the corpus.
An organization that has grown large gets a side index beside them:

- a tail, rows in the database that are written in the transaction that adds or removes a chunk (`changes.py`);
- segments, folders of immutable arrays that a keeper makes of the tail and merges in tiers (`keeper.py`, `blocks.py`,
  `clusters.py`). A segment counts from the moment that its row says so, in one short transaction;
- a search over both (`searching.py`), whose hits are checked against the tables before they are returned (`filters.py`).

Nothing here is the only copy of anything: what is lost or damaged is built anew, and searched by FTS5 and vec0 until then.
"""
