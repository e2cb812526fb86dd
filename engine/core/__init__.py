"""Plain Python under everything else: no torch at run time, no page, no path."""
