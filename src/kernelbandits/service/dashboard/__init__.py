"""The dashboard: pages made on the server that answer what a person wants to know about an experiment.

Tables work without JavaScript; with it, uPlot draws the numbers of a table above it. A page fetches nothing from
another host. uPlot 1.6.32 is in `static`, with its license.
"""

from kernelbandits.service.dashboard.pages import routes

__all__ = ["routes"]
