"""`python -m spanlab`, the same as the `spanlab` command; torchrun needs this form."""

from spanlab.cli.main import main

if __name__ == "__main__":
    main()
