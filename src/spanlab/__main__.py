"""`python -m spanlab` is the `spanlab` command; torchrun starts it so."""

from spanlab.cli.main import main

if __name__ == "__main__":
    main()
