"""Entry point of `python -m kernelbandits`."""

import sys

from kernelbandits.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
