"""The tabs of the Recover page, one file each."""
