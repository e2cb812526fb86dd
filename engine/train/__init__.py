"""Scripts that train the small networks we ship: `python -m engine.train.<name>`. Resumable, seeded."""
