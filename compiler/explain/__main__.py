"""`python -m compiler.explain`: see report.py."""

import sys

from compiler.explain.report import main

if __name__ == "__main__":
    sys.exit(main())
