"""Erasing one person: where to send them, and what it costs everyone else."""
