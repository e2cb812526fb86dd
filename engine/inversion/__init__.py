"""From a photo to codes of a generator."""
