"""Values that are wrong, or unusual, for almost every argument."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array, csr_matrix, lil_array

import kernelbandits as kb
from kernelbandits.kernels import Gaussian, Linear, PairProduct, Precomputed, Rows, Spectrum, Strings
from kernelbandits.theory import Mixture

__all__ = ["FUNCTIONS", "LARGE_COUNTS", "ODD"]


class Number(float):
    """A subclass of float, as some libraries use for their numbers."""


def returns_none(*_args, **_kwargs):
    return None


def returns_nan(*_args, **_kwargs):
    return float("nan")


def returns_text(*_args, **_kwargs):
    return "text"


def returns_one(*_args, **_kwargs):
    return 1.0


def _endless():
    items = []
    items.append(items)
    return items


def _deep():
    items = 1.0
    for _ in range(70):  # more dimensions than an array can have
        items = [items]
    return items


def _objects(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _changed(matrix, array, value):
    getattr(matrix, array)[-1] = value
    return matrix


FUNCTIONS = {
    "a function that returns None": lambda: returns_none,
    "a function that returns nan": lambda: returns_nan,
    "a function that returns text": lambda: returns_text,
    "a function that returns 1.0": lambda: returns_one,
}
"""Functions that can be called with anything. What a function of the user raises is the user's business."""

NUMBERS = {
    "None": None,
    "True": True,
    "False": False,
    "np.True_": np.True_,
    "0": 0,
    "1": 1,
    "2": 2,
    "3": 3,
    "7": 7,
    "-1": -1,
    "-7": -7,
    "2**31": 2**31,
    "2**63": 2**63,
    "2**64": 2**64,
    "-2**64": -(2**64),
    "10**30": 10**30,
    "10**400": 10**400,
    "-10**400": -(10**400),
    "10**5000": 10**5000,
    "0.0": 0.0,
    "-0.0": -0.0,
    "0.5": 0.5,
    "1.0": 1.0,
    "1.5": 1.5,
    "-0.5": -0.5,
    "1e-9": 1e-9,
    "1e-200": 1e-200,
    "5e-324": 5e-324,
    "1e9": 1e9,
    "1e19": 1e19,
    "1e149": 1e149,
    "1e200": 1e200,
    "-1e200": -1e200,
    "1e308": 1e308,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "np.float16": np.float16(0.5),
    "np.float32": np.float32(0.5),
    "np.float64": np.float64(0.5),
    "np.longdouble": np.longdouble(0.5),
    "np.longdouble 1e4000": np.longdouble("1e4000"),
    "np.float32 nan": np.float32("nan"),
    "np.int8": np.int8(3),
    "np.int64": np.int64(-1),
    "np.uint8": np.uint8(2),
    "np.uint64": np.uint64(2**63),
    "complex": 1j,
    "np.complex64": np.complex64(0.5),
    "complex 0.5": 0.5 + 0j,
    "Fraction": Fraction(1, 2),
    "huge Fraction": Fraction(10**400, 3),
    "Decimal": Decimal("0.5"),
    "Decimal NaN": Decimal("NaN"),
    "Decimal sNaN": Decimal("sNaN"),
    "huge Decimal": Decimal("1e400"),
    "float subclass": Number(0.5),
    "datetime64": np.datetime64("2020-01-01"),
    "NaT": np.datetime64("NaT", "s"),
    "timedelta64": np.timedelta64(3, "D"),
    "date": dt.date(2020, 1, 1),
    "timedelta": dt.timedelta(3),
}

LARGE_COUNTS = ("2**31", "2**63", "2**64", "10**30", "1e9", "1e19", "np.uint64")
"""Whole numbers that are valid as counts of rounds, and too large for a test."""

TEXTS = {
    "empty text": "",
    "text 0.5": "0.5",
    "text": "abc",
    "surrogate": "\ud800",
    "NUL": "a\0b",
    "bytes": b"abc",
    "np.str_": np.str_("abc"),
    "np.bytes_": np.bytes_(b"abc"),
    "path": Path("not_there"),
    "long text": "x" * 300,
}

COLLECTIONS = {
    "[]": list,
    "()": tuple,
    "{}": dict,
    "set()": set,
    "[1.0]": lambda: [1.0],
    "(0, 1)": lambda: (0, 1),
    "(1, 0)": lambda: (1, 0),
    "(0.5, 0.5)": lambda: (0.5, 0.5),
    "(nan, 1)": lambda: (float("nan"), 1.0),
    "(0, inf)": lambda: (0.0, float("inf")),
    "(10**400, 1)": lambda: (10**400, 1),
    "(0, 10**400)": lambda: (0, 10**400),
    "(-1e308, 1e308)": lambda: (-1e308, 1e308),
    "(0, 1e-300)": lambda: (0.0, 1e-300),
    "(None, 1)": lambda: (None, 1),
    "('a', 'b')": lambda: ("a", "b"),
    "(0, 1, 2)": lambda: (0, 1, 2),
    "[0, 0, 0, 0]": lambda: [0, 0, 0, 0],
    "[True, False]": lambda: [True, False],
    "[-1, 0, 1, 2]": lambda: [-1, 0, 1, 2],
    "['a', 'b', 'c', 'd']": lambda: ["a", "b", "c", "d"],
    "[None, None, None, None]": lambda: [None] * 4,
    "ragged": lambda: [[1.0, 2.0, 3.0], [4.0]],
    "ragged deeper": lambda: [[[1.0], 2.0], 3.0],
    "mixed": lambda: ["a", 1.0, None],
    "lists of text": lambda: [["a", "b"], ["c", "d"]],
    "[[1, 2, 3]] * 4": lambda: [[1, 2, 3]] * 4,
    "[[]]": lambda: [[]],
    "[[], []]": lambda: [[], []],
    "[[10**400]]": lambda: [[10**400] * 3] * 4,
    "[[1j]]": lambda: [[1j] * 3] * 4,
    "[[Fraction]]": lambda: [[Fraction(1, 2)] * 3] * 4,
    "[[Decimal]]": lambda: [[Decimal("0.5")] * 3] * 4,
    "endless": _endless,
    "deep": _deep,
    "range": lambda: range(4),
    "iterator": lambda: iter([1.0, 2.0, 3.0, 4.0]),
    "generator": lambda: (x for x in (1, 2)),
    "dict": lambda: {"a": 1.0, "b": [1.0, 2.0]},
    "dict of class": lambda: {"class": "Gaussian"},
    "dict of numbers": lambda: {0: 1.0},
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset({"a"}),
    "dict keys": lambda: {"a": 1}.keys(),
}

ARRAYS = {
    "array of none": lambda: np.array([]),
    "zeros((0, 3))": lambda: np.zeros((0, 3)),
    "zeros((4, 0))": lambda: np.zeros((4, 0)),
    "0-d": lambda: np.array(0.5),
    "0-d int": lambda: np.array(3),
    "0-d object": lambda: np.array(None),
    "0-d text": lambda: np.array("a"),
    "array [0.5]": lambda: np.array([0.5]),
    "array [[0.5]]": lambda: np.array([[0.5]]),
    "array of 4": lambda: np.array([0.1, 0.2, 0.3, 0.4]),
    "array 4 x 2": lambda: np.ones((4, 2)),
    "array 5 x 3": lambda: np.ones((5, 3)),
    "array 4 x 3": lambda: np.arange(12.0).reshape(4, 3),
    "zeros 4 x 3": lambda: np.zeros((4, 3)),
    "zeros 4": lambda: np.zeros(4),
    "eye 4": lambda: np.eye(4),
    "array 2 x 2 x 2": lambda: np.zeros((2, 2, 2)),
    "-eye 4": lambda: -np.eye(4),
    "not symmetric": lambda: np.triu(np.ones((4, 4))),
    "float16": lambda: np.full((4, 3), 0.5, dtype=np.float16),
    "float32": lambda: np.full((4, 3), 0.5, dtype=np.float32),
    "longdouble": lambda: np.full((4, 3), np.longdouble("1e4000")),
    "int8": lambda: np.ones((4, 3), dtype=np.int8),
    "uint64": lambda: np.full((4, 3), 2**64 - 1, dtype=np.uint64),
    "bools": lambda: np.ones((4, 3), dtype=bool),
    "mask of 4": lambda: np.array([True, False, True, True]),
    "mask of none": lambda: np.zeros(4, dtype=bool),
    "objects": lambda: _objects(None, 1.0, "a", 2),
    "object numbers": lambda: _objects(1.0, 2.0, 3.0, 4.0),
    "object rows": lambda: np.full((4, 3), 0.5).astype(object),
    "object None rows": lambda: np.full((4, 3), None),
    "object huge": lambda: np.full((4, 3), 10**400, dtype=object),
    "object lists": lambda: _objects([1.0], [1.0, 2.0], [], [3.0]),
    "complex rows": lambda: np.full((4, 3), 1j),
    "complex 4": lambda: np.full(4, 1j),
    "dates": lambda: np.full((4, 3), np.datetime64("2020-01-01")),
    "dates 4": lambda: np.full(4, np.datetime64("2020-01-01")),
    "timedeltas 4": lambda: np.full(4, np.timedelta64(1, "D")),
    "texts 4": lambda: np.array(["a", "b", "c", "d"]),
    "bytes 4": lambda: np.array([b"a", b"b", b"c", b"d"]),
    "text rows": lambda: np.full((4, 3), "a"),
    "records": lambda: np.zeros(4, dtype=[("x", float), ("y", "U3")]),
    "void": lambda: np.zeros(4, dtype="V8"),
    "nan rows": lambda: np.full((4, 3), np.nan),
    "inf rows": lambda: np.full((4, 3), np.inf),
    "nan 4": lambda: np.full(4, np.nan),
    "inf 4": lambda: np.full(4, np.inf),
    "-1 4": lambda: np.full(4, -1.0),
    "1e200 rows": lambda: np.full((4, 3), 1e200),
    "1e308 rows": lambda: np.full((4, 3), 1e308) * np.array([1.0, -1.0, 1.0]),
    "2**64 rows": lambda: 2.0**64 * np.arange(12.0).reshape(4, 3),
    "2**32 rows": lambda: 2.0**32 * np.arange(12.0).reshape(4, 3),
    "1e150 rows": lambda: 1e150 * (1.0 + np.arange(12.0).reshape(4, 3)),
    "1e-200 rows": lambda: 1e-200 * (1.0 + np.arange(12.0).reshape(4, 3)),
    "5e-324 rows": lambda: np.full((4, 3), 5e-324),
    "1e200 4": lambda: np.full(4, 1e200),
    "1e-320 4": lambda: np.full(4, 1e-320),
    "masked rows": lambda: np.ma.masked_greater(np.arange(12.0).reshape(4, 3), 5.0),
    "masked 4": lambda: np.ma.masked_greater(np.arange(4.0), 2.0),
    "masked nothing": lambda: np.ma.array(np.arange(12.0).reshape(4, 3)),
    "masked mask": lambda: np.ma.array([True, True, False, True], mask=[True, False, False, False]),
    "np.ma.masked": lambda: np.ma.masked,
    "masked 4, all": lambda: np.ma.masked_all(4),
    "strided": lambda: np.arange(24.0).reshape(8, 3)[::2],
    "Fortran": lambda: np.asfortranarray(np.arange(12.0).reshape(4, 3)),
    "read-only": lambda: np.broadcast_to(np.arange(3.0), (4, 3)),
    "big endian": lambda: np.arange(12.0).reshape(4, 3).astype(">f8"),
    "ints": lambda: np.arange(12).reshape(4, 3),
    "ints 4": lambda: np.arange(4),
    "csr": lambda: csr_array(np.eye(4, 3)),
    "csr_matrix": lambda: csr_matrix(np.eye(4, 3)),
    "coo": lambda: coo_array(np.eye(4, 3)),
    "csr empty": lambda: csr_array((0, 3)),
    "csr zeros": lambda: csr_array((4, 3)),
    "csr nan": lambda: csr_array(np.full((4, 3), np.nan)),
    "csr complex": lambda: csr_array(np.full((4, 3), 1j)),
    "csr 2**40 columns": lambda: csr_array((4, 2**40)),
    "coo of one row": lambda: coo_array(np.ones(3)),
    "csr index outside": lambda: _changed(csr_array(np.eye(4, 3)), "indices", 10**8),
    "csr rows outside": lambda: _changed(csr_array(np.eye(4, 3)), "indptr", 10**8),
    "csc index outside": lambda: _changed(csc_array(np.eye(4, 3)), "indices", 10**8),
    "coo index outside": lambda: _changed(coo_array(np.eye(4, 3)), "row", 10**8),
    "bsr index outside": lambda: _changed(bsr_array(np.eye(4, 3)), "indices", 10**8),
    "lil index outside": lambda: _changed(lil_array(np.eye(4, 3)), "rows", [10**8]),
}

OBJECTS = {
    "object": object,
    "Ellipsis": lambda: Ellipsis,
    "NotImplemented": lambda: NotImplemented,
    "slice": lambda: slice(1),
    "namespace": SimpleNamespace,
    "module": lambda: np,
    "int class": lambda: int,
    "Gaussian class": lambda: Gaussian,
    "exception": lambda: ValueError("odd"),
    "RandomState": lambda: np.random.RandomState(0),
    "Generator": lambda: np.random.default_rng(0),
    "SeedSequence": lambda: np.random.SeedSequence(0),
    "PCG64": lambda: np.random.PCG64(0),
    "Random": lambda: random.Random(0),
    "Gaussian": lambda: Gaussian(length_scale=1.0),
    "Linear": Linear,
    "Spectrum": Spectrum,
    "Precomputed": lambda: Precomputed(np.eye(2)),
    "PairProduct": lambda: PairProduct(Linear(), Spectrum()),
    "Rows": Rows,
    "Strings": Strings,
    "Mixture": lambda: Mixture(noise_scale=0.5, norm_bound=1.0, failure_probability=0.1),
    "Mixture class": lambda: Mixture,
    "policy": lambda: kb.KernelUCB(Gaussian(length_scale=1.0)),
    "policy class": lambda: kb.KernelUCB,
    "UniformRandom": lambda: kb.UniformRandom(seed=0),
    "decision": lambda: kb.Decision(0, np.zeros(3)),
    "Catalog": lambda: kb.Catalog(np.eye(4, 3)),
    "Box": lambda: kb.Box(np.zeros(3), np.ones(3)),
    "Product": lambda: kb.Product(np.ones(2), kb.Box([0.0], [1.0])),
    "empty slate": lambda: kb.Slate(()),
    "Pairs of None": lambda: kb.Pairs(None, None),
    "Pairs": lambda: kb.Pairs(np.ones(2), np.eye(4, 3)),
    "Pairs of text": lambda: kb.Pairs("a", ["b", "c"]),
    "Pairs of Pairs": lambda: kb.Pairs(kb.Pairs(1, 2), [3]),
    "bytearray": lambda: bytearray(b"abc"),
    "memoryview": lambda: memoryview(b"abc"),
    "memoryview 4 x 3": lambda: memoryview(np.arange(12.0).reshape(4, 3)),
    "memoryview 0-d": lambda: memoryview(np.array(0.5)),
}

ODD = {
    **{name: (lambda value=value: value) for name, value in {**NUMBERS, **TEXTS}.items()},
    **COLLECTIONS,
    **ARRAYS,
    **OBJECTS,
    **FUNCTIONS,
}
"""By name, functions that make the value: some are used up, or could be written to."""
