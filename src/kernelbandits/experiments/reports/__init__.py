"""Reports of studies: one HTML page, and tables and figures as files.

A report is written from a result folder alone: it simulates nothing, reports what is there and warns about what is
missing. From a terminal: `kernelbandits report results`.
"""

from kernelbandits.experiments.reports.report import Report, write_report

__all__ = ["Report", "write_report"]
