"""The compile worker on a kernel with neither Landlock nor seccomp."""

from __future__ import annotations

import sys
from unittest import mock

from compiler.sandbox import landlock, seccomp

if __name__ == "__main__":
    from compiler.worker.__main__ import main

    with mock.patch.object(landlock, "version", lambda: 0), mock.patch.object(seccomp, "available", lambda: False):
        sys.exit(main())
