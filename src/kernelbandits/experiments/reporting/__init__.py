"""The report of a study: what its result folder says, on one page, in figures and tables.

`report("results")` reads the folder that a study has written, simulates nothing, and writes one self-contained page,
with the figures and tables beside it as files for papers. It reports what is there and says what is missing. From a
terminal: `kernelbandits report results`.
"""

from kernelbandits.experiments.reporting.entries import Entry
from kernelbandits.experiments.reporting.played import Played
from kernelbandits.experiments.reporting.reading import Recorded, read_results
from kernelbandits.experiments.reporting.writing import Report, report, write_report

__all__ = ["Entry", "Played", "Recorded", "Report", "read_results", "report", "write_report"]
