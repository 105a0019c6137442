"""How much of a .pt2 archive is accepted from somebody nobody vouches for.

The daemon reads the same file first and holds it to the same numbers: server/program/limits.h, with the reasons. What
is larger than one of the two takes is served by neither.
"""

from __future__ import annotations

MAX_ARCHIVE_MEMBERS = 1 << 20
# Of models/model.json.
MAX_GRAPH_BYTES = 512 << 20
# Of each of the two files that describe the weights and the constants.
MAX_CONFIG_BYTES = 64 << 20
# Of archive_format, archive_version and byteorder, one word each.
MAX_MARKER_BYTES = 64
# Axes of a weight; torch's own kernels stop here.
MAX_STORED_RANK = 64
# The text of a size that is an expression; a detector adds what it finds of each class.
MAX_EXPRESSION_BYTES = 1 << 16
# Rows that a loop runs over, and the bytes of graph, roughly, that all loops unroll to.
MAX_UNROLLED_STEPS = 256
MAX_UNROLLED_WEIGHT = 128 << 20
