"""What the kernel holds a process to that handles a program nobody vouches for. Knows neither torch nor jobs."""
