"""The parts of the Feature page after labelling, one file each: preview, check, the check by people, label files."""
