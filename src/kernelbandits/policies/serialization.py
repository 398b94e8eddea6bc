"""Saving and loading of policies."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Final

import numpy as np

from kernelbandits._files import read_container, write_container
from kernelbandits._parameters import THEORY
from kernelbandits._saved_state import saved_array, saved_part, saved_value
from kernelbandits.errors import (
    CannotSave,
    DamagedFile,
    ForeignFile,
    InvalidParameter,
    KernelBanditError,
    SavedFileError,
)
from kernelbandits.kernels import Kernel, KernelLike, as_kernel, unpack_kernel
from kernelbandits.policies.base import Policy, Saved, fingerprint_of
from kernelbandits.types import Parameters, Seed
from kernelbandits.validation import check_list, check_path, short_repr

__all__ = ["load", "packed_policy", "write_policy"]

N_PROBES: Final = 4
"""Number of points whose 4 × 4 similarities are stored to check the kernel passed to `load`."""

MISSING: Final = object()
"""Placeholder for a parameter that is missing from a policy's description."""

GENERATORS: Final = {name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")}


def write_policy(packed: Parameters, path: str | PathLike[str]) -> None:
    """Write the return value of `packed_policy`."""
    write_container(packed, path)


def packed_policy(policy: Policy) -> Parameters:
    """Return the complete file content of a policy, as nested plain values and arrays."""
    description = policy.describe()
    policy.fingerprint  # noqa: B018 – records a former fingerprint in the ledger
    return {
        "policy": description,
        "structure": policy._packed_parameters(),
        "resolved": sorted(policy._resolved),
        "kernel": _packed_kernel(policy.kernel),
        "probe": _probe(policy),
        "model": policy._state(),
        "ledger": policy._ledger.state(),
        "generator": _plain_generator(policy._rng),
        "key": policy._random.key.hex(),
        "has_history": policy._has_history,
    }


def load(
    path: str | PathLike[str],
    *,
    kernel: KernelLike | None = None,
    policies: Sequence[type[Policy]] = (),
    seed: Seed = None,
) -> Policy:
    """Load a saved policy. It continues exactly from its saved state.

    Parameters
    ----------
    path
        A file written by `policy.save`.
    kernel
        Required if the kernel is a user-defined function or object, which a file stores by name only. It is checked
        against similarities stored in the file. Otherwise optional, to share one similarity matrix.
    policies
        User-defined policy classes that the file may contain.
    seed
        New random state, as in `reseed`, for several workers that load the same file. None: the saved one.
    """
    own = check_list(policies, "Policy classes of your own", "One class: policies=[MyPolicy].")
    for one in own:
        if not (isinstance(one, type) and issubclass(one, Policy)):
            raise InvalidParameter(f"Policy classes of your own inherit from Policy, got {short_repr(one)}.")
    known = {**_known(), **{one.__name__: one for one in own}}
    content = read_container(check_path(path))
    given = None if kernel is None else as_kernel(kernel)
    if given is not None and saved_value(content, "kernel") is None:
        raise InvalidParameter("This file's policy has no kernel, so none can be given.")
    try:
        policy = _unpacked(content, given, known)
    except SavedFileError:
        raise
    except MemoryError as error:
        raise SavedFileError(f"{os.fspath(path)!r} holds a policy that takes more memory than there is.") from error
    except Exception as error:  # anything that passed the checks above: `load` raises only its documented errors
        raise DamagedFile(
            f"{os.fspath(path)!r} does not hold a policy as it is saved: {type(error).__name__}: {error!s:.200}"
        ) from error
    if seed is not None:
        policy.reseed(seed)
    return policy


def _known() -> dict[str, type[Policy]]:
    """Return the policy classes that a file may name. Nothing is imported by a name found in a file."""
    from kernelbandits import policies

    named = {name: getattr(policies, name) for name in policies.__all__}
    return {name: value for name, value in named.items() if isinstance(value, type) and issubclass(value, Policy)}


def _unpacked(content: Mapping[str, Any], kernel: Kernel | None, known: Mapping[str, type[Policy]]) -> Policy:
    """Rebuild the policy from the return value of `packed_policy`."""
    description = saved_part(content, "policy")
    name = saved_value(description, "class")
    if not isinstance(name, str) or name not in known:
        raise ForeignFile(
            f"The file holds a {name!r}, which is not known here. Name its class: load(path, policies=[{name}])."
        )
    chosen = _chosen_kernel(content, kernel)
    policy = known[name]._build(
        Saved(
            parameters={key: value for key, value in description.items() if key != "class"},
            kernel=chosen,
            structure=saved_part(content, "structure"),
            rebuild=lambda inner: _unpacked(inner, chosen, known),
        )
    )
    _check_same(description, policy.describe(), but_kernel=kernel is not None)
    _check_probe(policy, saved_value(content, "probe"))
    policy._resolved = _resolved(type(policy), saved_value(content, "resolved"))
    policy._restore(saved_part(content, "model"))
    policy._ledger.restore(saved_part(content, "ledger"))
    for decision in policy._ledger.pending.values():
        policy._validate_decision(decision)
        policy._validate_comparable(policy._point(decision))
    policy._random.resume(_generator(saved_part(content, "generator")), bytes.fromhex(saved_value(content, "key")))
    policy._has_history = bool(saved_value(content, "has_history"))
    policy._journal.commit()
    if kernel is None and (before := fingerprint_of(dict(description))) != policy.fingerprint:
        policy._ledger.add_former(before)  # of a version with fewer parameters: its decisions are still the policy's
    return policy


def _resolved(policy: type[Policy], names: Any) -> frozenset[str]:
    """Return the names of parameters that were given as None, or raise DamagedFile."""
    declared = policy._declared
    if not isinstance(names, list) or not all(isinstance(name, str) and name in declared for name in names):
        raise DamagedFile(f"The file names parameters that {policy.__name__} does not have: {names!r:.80}.")
    if not all(declared[name].is_optional for name in names):
        raise DamagedFile(f"The file says that parameters were None that cannot be: {names!r:.80}.")
    return frozenset(names)


def _check_same(saved: Any, built: Any, *, but_kernel: bool, name: str = "policy") -> None:
    """Raise DamagedFile if the description of the rebuilt policy differs from the one in the file.

    A kernel passed by the caller is checked by its similarities instead.
    """
    if isinstance(saved, dict) and isinstance(built, dict):
        for key, value in saved.items():
            if not (but_kernel and key.endswith("kernel")):
                _check_same(value, built.get(key, MISSING), but_kernel=but_kernel, name=key)
    elif isinstance(saved, list) and isinstance(built, list | tuple) and len(saved) == len(built):
        for one, other in zip(saved, built, strict=True):
            _check_same(one, other, but_kernel=but_kernel, name=name)
    elif saved is None and built == THEORY:
        return  # written before the constant of the theorem had a name
    elif isinstance(saved, bool) != isinstance(built, bool) or saved != built:
        raise DamagedFile(f"{name!r:.60} in the file is {saved!r:.60}, and the policy built from it has {built!r:.60}.")


def _packed_kernel(kernel: Kernel | None) -> Any:
    """Return the kernel as parameters and arrays, or only its description; None if there is no kernel."""
    if kernel is None:
        return None
    try:
        parameters, arrays = kernel.pack()
    except CannotSave:
        return {"description": kernel.describe()}
    return {"description": kernel.describe(), "parameters": parameters, "arrays": arrays}


def _chosen_kernel(content: Mapping[str, Any], given: Kernel | None) -> Kernel | None:
    if saved_value(content, "kernel") is None:
        return None
    packed = saved_part(content, "kernel")
    description = saved_value(packed, "description")
    if given is not None:
        if "parameters" in packed and given.describe() != description:
            raise ForeignFile(
                f"The kernel given to load is not the one this policy learned with, {description}, but "
                f"{given.describe()}."
            )
        return given
    if "parameters" not in packed:
        raise ForeignFile(
            f"The file names its kernel and cannot hold it: {description}. Hand it over: load(path, kernel=…)."
        )
    return unpack_kernel(dict(saved_part(packed, "parameters")), saved_part(packed, "arrays"))


def _probe(policy: Policy) -> Any:
    """Return a few learned points and their similarities."""
    points = policy._probe()
    if points is None or policy.kernel is None:
        return None
    kind = policy.kernel.kind
    some = kind.take(points, np.arange(min(N_PROBES, kind.count(points))))
    return {"points": kind.pack(some), "similarities": policy.kernel.gram(some)}


def _check_probe(policy: Policy, probe: Any) -> None:
    if probe is None or policy.kernel is None:
        return
    try:
        points = policy.kernel.kind.check(policy.kernel.kind.unpack(saved_part(probe, "points")))
        similarities = policy.kernel.gram(points)
    except (KernelBanditError, KeyError, ValueError, TypeError) as error:
        raise ForeignFile(f"The kernel given to load does not take the points of this file: {error}") from error
    stored = saved_array(probe, "similarities", "f", similarities.shape)
    if not np.allclose(similarities, stored, rtol=1e-8, atol=1e-12):
        raise ForeignFile(
            "The kernel given to load is not the one this policy learned with: similarities in the file differ by "
            f"up to {np.abs(similarities - stored).max():.3g}."
        )


def _plain_generator(rng: np.random.Generator) -> Any:
    state = dict(rng.bit_generator.state)
    if state["bit_generator"] not in GENERATORS:
        raise CannotSave(f"A file can hold NumPy's own bit generators, got {state['bit_generator']!r}.")
    return _to_json(state)


def _generator(state: Mapping[str, Any]) -> np.random.Generator:
    name = state.get("bit_generator")
    if not isinstance(name, str) or name not in GENERATORS:
        raise ForeignFile(f"The file names a generator that is not NumPy's own: {name!r:.60}.")
    bits = GENERATORS[name]()
    bits.state = state
    if _to_json(bits.state) != dict(state):
        raise DamagedFile(f"The state of the generator in the file is not one of {name}.")
    return np.random.Generator(bits)


def _to_json(value: Any) -> Any:
    """Convert arrays of unsigned 64-bit words (Philox, MT19937) to lists: a JSON integer has no largest value."""
    if isinstance(value, dict):
        return {key: _to_json(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value
