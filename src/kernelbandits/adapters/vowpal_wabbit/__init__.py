"""Logs of Vowpal Wabbit: decision-service lines and text with action features."""

from kernelbandits.adapters.vowpal_wabbit.dsjson import read_dsjson, write_dsjson
from kernelbandits.adapters.vowpal_wabbit.log import Vocabulary, VowpalLog
from kernelbandits.adapters.vowpal_wabbit.text import read_adf_text, write_adf_text

__all__ = ["Vocabulary", "VowpalLog", "read_adf_text", "read_dsjson", "write_adf_text", "write_dsjson"]
