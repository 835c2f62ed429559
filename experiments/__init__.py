"""The paper's experiments, beside the package: ``python -m experiments mixture --preset quick``."""
