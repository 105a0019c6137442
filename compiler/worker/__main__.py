"""`python -m compiler.worker`: see parent.py."""

import sys

from compiler.worker.parent import main

if __name__ == "__main__":
    sys.exit(main())
