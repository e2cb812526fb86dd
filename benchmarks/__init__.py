"""One script per published number: `python -m benchmarks.NAME` prints its tables; `python -m benchmarks NAME` keeps
them in RESULTS.md as well, `python -m benchmarks speed` or `quality` those of many."""
