"""The one place that launches servers: stokerd for tests, benchmarks and comparisons, and what it is compared with.

    process           any program, as a process group that is always ended
    inference_server  one that speaks the Open Inference Protocol on loopback
    stokerd           this project's, with its log and its metrics

Imports nothing else of this project, and third-party packages only where a client is asked for.
"""
