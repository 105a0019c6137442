"""What a user of each server writes to serve the demo model on it.

Files here run inside the peers' own processes, with their own environments.
"""
