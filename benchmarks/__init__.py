"""Side-by-side measurements, one file each: ``python benchmarks/update_cost.py``."""
