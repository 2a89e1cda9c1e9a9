"""How the bundled model `reader` is made: its training files, its runs, its scores."""
