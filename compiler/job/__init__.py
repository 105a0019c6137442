"""One compile, from the request to the staged artifact. Neither forks nor serves requests: worker does."""
