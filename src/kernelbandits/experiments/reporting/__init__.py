"""The report of a study: what its result folder says, on one page, in figures and tables.

`report("results")` reads the folder that a study has written, simulates nothing, and writes one self-contained page,
with the figures and tables beside it as files for papers. It reports what is there and says what is missing. From a
terminal: `kernelbandits report results`.
"""

from kernelbandits.experiments.reporting.writing import Report, report, write_report

__all__ = ["Report", "report", "write_report"]
