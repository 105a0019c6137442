"""The one exception of the compiler that is an answer rather than a failure."""


class Refused(Exception):
    """The program can't be compiled into code that is safe on every value. The message says which
    operator or line of the generated code stands in the way; compiling again would not help."""
