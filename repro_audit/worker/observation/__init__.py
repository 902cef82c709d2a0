"""Observes a script that knows nothing of it, at points where PyTorch lets others listen."""
