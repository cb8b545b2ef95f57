"""Knowledge: what of the store a model may use, who decided so, and what became of it."""
