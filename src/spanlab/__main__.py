"""`python -m spanlab` is the `spanlab` command, as torchrun starts it."""

from spanlab.cli.main import main

if __name__ == "__main__":
    main()
