"""The command line: `kernelbandits`, or `python -m kernelbandits`.

One thin module per command. A command reads its arguments, calls one function of the library and prints the result;
computation belongs to other packages. Start with `kernelbandits demo`.
"""

from kernelbandits.cli.main import main

__all__ = ["main"]
