"""One script per published number: `python -m benchmarks.NAME` prints its tables; `python -m benchmarks` runs them all
and keeps what they printed in RESULTS.md."""
