"""The Python side of Stoker: everything that needs torch's compiler.

Packages from the ground up; tests/python_layering_test.py holds their imports to this order:

    program     reads a .pt2 file that nobody vouches for
    guards      what makes a graph safe on every value, and the proof that it is
    specialise  a program and a bucket's sizes in, the graph that TorchInductor compiles out
    job         one compile: a request in, a staged artifact out
    worker      python -m compiler.worker: a warm parent that forks one child per job
    explain     python -m compiler.explain: what a program's time goes to
    export      python -m compiler.export: a model in, a model.pt2 out
    reference   python -m compiler.reference: runs a program in float64
"""
