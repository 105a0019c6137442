"""Figures in columns, as a terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence


def number(value: float | None, digits: int = 0) -> str:
    """Rounded to `digits` decimals, more for small values: 12,345; 34.6; 0.082; – for None."""
    if value is None:
        return "–"
    if digits == 0 and 0 < abs(value) < 100:
        digits = 1
    if digits and 0 < abs(value) < 10**-digits:
        digits += 1
    return f"{value:,.{digits}f}"


def aligned(lines: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """Columns of equal width, text to the left and numbers to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return [
        "  ".join(
            text.ljust(width) if i in left else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
