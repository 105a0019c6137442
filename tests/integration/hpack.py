"""HTTP/2's compressed headers as text, read by the library that curl and Apache read them with."""

from __future__ import annotations

import ctypes


class _Entry(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("name_size", ctypes.c_size_t),
        ("value_size", ctypes.c_size_t),
        ("flags", ctypes.c_uint8),
    )


FINAL, EMIT = 1, 2


class HeaderDecoder:
    """Of one connection: every list of headers has to pass it, in order."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnghttp2.so.14")
        self._library.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        self._inflater = ctypes.c_void_p()
        assert self._library.nghttp2_hd_inflate_new(ctypes.byref(self._inflater)) == 0

    def __del__(self) -> None:
        self._library.nghttp2_hd_inflate_del(self._inflater)

    def decode(self, block: bytes) -> list[tuple[bytes, bytes]]:
        """The whole of a list, its CONTINUATIONs included."""
        headers = []
        flags = ctypes.c_int(0)
        while not flags.value & FINAL:
            entry = _Entry()
            used = self._library.nghttp2_hd_inflate_hd2(
                self._inflater, ctypes.byref(entry), ctypes.byref(flags),
                ctypes.c_char_p(block), ctypes.c_size_t(len(block)), 1,
            )  # fmt: skip
            assert used >= 0, f"error {used} of the decoder"
            block = block[used:]
            if flags.value & EMIT:
                name = ctypes.string_at(entry.name, entry.name_size)
                headers.append((name, ctypes.string_at(entry.value, entry.value_size)))
        self._library.nghttp2_hd_inflate_end_headers(self._inflater)
        return headers
