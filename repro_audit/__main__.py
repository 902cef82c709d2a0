"""``python -m repro_audit``."""

from repro_audit.cli import entry

if __name__ == "__main__":
    entry()
