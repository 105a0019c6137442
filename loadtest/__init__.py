"""Loads servers and measures them: Stoker, its parts, and what else serves PyTorch.

    generator   stoker-loadtest, in C++: loads any server of the Open Inference Protocol; scenarios/ are its input
    servers     launches and ends servers, for everything here and for tests/
    benchmarks  Stoker's own figures, and the C++ programs that they take
    peers       other servers, installed and measured beside Stoker
    suite       ten models of different kinds, eager against what is served
    coverage    163 programs of many libraries: how many are served, compiled and promoted
    results     what was measured, with its date
    circumstances, text_table   what peers, suite and coverage say of a run, and how
    environments   installs packages that only a tool here needs

Nothing here imports from tests/.
"""
