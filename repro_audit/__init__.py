"""Reproducibility audit and smoke test for PyTorch."""

__version__ = "0.1.0"
