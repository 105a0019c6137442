"""The process that compiles for stokerd: forks, limits and ends jobs. Knows no graphs."""
