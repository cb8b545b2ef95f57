"""Models: embedders, rerankers, generators."""
