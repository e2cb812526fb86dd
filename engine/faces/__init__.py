"""Finding, aligning, recognising and describing faces. Images are [n, 3, h, w] in [-1, 1] unless said otherwise."""
