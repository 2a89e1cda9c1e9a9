"""A model folder, ready to answer: loaded, batched by tokens, results in the order of the inputs."""
