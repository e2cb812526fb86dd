"""Lethe's engine: generators, classifiers, and the methods that make them forget."""
