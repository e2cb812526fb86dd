"""The parts of the Feature page, one file each: which samples are shown, how far labelling has come, label files,
preview, check, the check by people."""
