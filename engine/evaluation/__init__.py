"""How well a classifier forgot, what it kept, and what an attacker still finds. One question per file."""
