"""Reads exported programs that nobody vouches for, and where their operators come from. Never compiles."""
