"""``python -m repro_audit``."""

import sys

from repro_audit.cli import main

if __name__ == "__main__":
    sys.exit(main())
