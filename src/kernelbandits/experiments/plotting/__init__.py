"""Figures of studies: themes and image files, curves with intervals, and the figures of a report."""
