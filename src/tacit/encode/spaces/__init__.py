"""Query embeddings: spaces whose points stand for questions."""
