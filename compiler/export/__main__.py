"""`python -m compiler.export`: see exporter.py."""

import sys

from compiler.export.exporter import main

if __name__ == "__main__":
    sys.exit(main())
