"""``python -m experiments NAME [options]``: run an experiment of the paper again."""
