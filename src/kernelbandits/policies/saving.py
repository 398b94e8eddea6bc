"""Policies to files and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Final

import numpy as np

from kernelbandits.checks import a_list, a_path, shown
from kernelbandits.errors import CannotSave, ForeignFile, InvalidParameter, KernelBanditError
from kernelbandits.kernels import Kernel, KernelLike, as_kernel, unpack_kernel
from kernelbandits.policies.base import Policy, Saved
from kernelbandits.policies.container import read_container, write_container
from kernelbandits.types import Decision, Parameters

__all__ = ["load", "packed_policy", "save_policy"]

N_PROBES: Final = 4
"""Points whose 4 × 4 similarities are kept to check the kernel that `load` is given."""

GENERATORS: Final = {name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")}


def save_policy(policy: Policy, path: str | PathLike[str]) -> None:
    """Write a policy with its model, its awaited decisions, its memory of ids and its generator."""
    write_container(packed_policy(policy), path)


def packed_policy(policy: Policy) -> Parameters:
    """All that a file holds of a policy, as nested plain values and arrays."""
    description = policy.describe()
    _refuse_what_a_file_cannot_hold(description)
    ledger = policy._ledger
    return {
        "policy": description,
        "structure": policy._structure(),
        "kernel": _packed_kernel(policy.kernel),
        "probe": _probe(policy),
        "model": policy._state(),
        "n_learnt": ledger.n_learnt,
        "learnt": ledger.learnt.state(),
        "pending": [decision.to_dict() for decision in ledger.pending.values()],
        "generator": _plain_generator(policy._rng),
    }


def load(
    path: str | PathLike[str], *, kernel: KernelLike | None = None, policies: Sequence[type[Policy]] = ()
) -> Policy:
    """Open a saved policy; it goes on exactly where it was.

    Parameters
    ----------
    path
        The file that `policy.save` wrote.
    kernel
        Needed when the kernel is a function or an object of your own, which a file can name and not hold. Checked
        against similarities kept in the file. Otherwise optional, to share one similarity table.
    policies
        Policy classes of your own that the file may hold.
    """
    own = a_list(policies, "Policy classes of your own", "One class: policies=[MyPolicy].")
    for policy in own:
        if not (isinstance(policy, type) and issubclass(policy, Policy)):
            raise InvalidParameter(f"Policy classes of your own inherit from Policy, got {shown(policy)}.")
    known = {**_known(), **{policy.__name__: policy for policy in own}}
    return _unpacked(read_container(a_path(path)), kernel, known)


def _known() -> dict[str, type[Policy]]:
    """What a file may name: the policies of the library. Nothing is imported by a name found in a file."""
    from kernelbandits import policies

    named = {name: getattr(policies, name) for name in policies.__all__}
    return {name: value for name, value in named.items() if isinstance(value, type) and issubclass(value, Policy)}


def _unpacked(content: Mapping[str, Any], kernel: KernelLike | None, known: Mapping[str, type[Policy]]) -> Policy:
    """The policy that `packed_policy` took apart."""
    name = content["policy"]["class"]
    if name not in known:
        raise ForeignFile(
            f"The file holds a {name!r}, which is not known here. Name its class: load(path, policies=[{name}])."
        )
    chosen = _chosen_kernel(content, kernel)
    policy = known[name]._build(
        Saved(
            parameters={key: value for key, value in content["policy"].items() if key != "class"},
            kernel=chosen,
            structure=content.get("structure", {}),
            rebuild=lambda inner: _unpacked(inner, chosen, known),
        )
    )
    _check_probe(policy, content["probe"])
    policy._restore(content["model"])
    ledger = policy._ledger
    ledger.n_learnt = content["n_learnt"]
    ledger.learnt.restore(content["learnt"])
    ledger.pending.update((values["id"], Decision.from_dict(values)) for values in content["pending"])
    policy._rng = _generator(content["generator"])
    return policy


def _packed_kernel(kernel: Kernel | None) -> Any:
    """The kernel as parameters and arrays; only its name where it has no such form; None where there is none."""
    if kernel is None:
        return None
    try:
        parameters, arrays = kernel.pack()
    except CannotSave:
        return {"named": kernel.describe()}
    return {"parameters": parameters, "arrays": arrays}


def _chosen_kernel(content: Mapping[str, Any], given: KernelLike | None) -> Kernel | None:
    packed = content["kernel"]
    if packed is None:
        if given is not None:
            raise InvalidParameter("This file's policy has no kernel, so none can be given.")
        return None
    if given is not None:
        kernel = as_kernel(given)
        if "named" not in packed and kernel.describe() != content["policy"]["kernel"]:
            raise ForeignFile(
                f"The kernel given to load is not the one this policy learnt with, {content['policy']['kernel']}, but "
                f"{kernel.describe()}."
            )
        return kernel
    if "named" in packed:
        raise ForeignFile(
            f"The file names its kernel and cannot hold it: {packed['named']}. Hand it over: load(path, kernel=…)."
        )
    return unpack_kernel(packed["parameters"], packed["arrays"])


def _probe(policy: Policy) -> Any:
    """A few learnt points and their similarities."""
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
        points = policy.kernel.kind.check(policy.kernel.kind.unpack(probe["points"]))
        similarities = policy.kernel.gram(points)
    except (KernelBanditError, KeyError, ValueError, TypeError) as error:
        raise ForeignFile(f"The kernel given to load does not take the points of this file: {error}") from error
    if not np.allclose(similarities, probe["similarities"], rtol=1e-8, atol=1e-12):
        raise ForeignFile(
            "The kernel given to load is not the one this policy learnt with: similarities kept in the file differ by "
            f"up to {np.abs(similarities - probe['similarities']).max():.3g}."
        )


def _refuse_what_a_file_cannot_hold(description: Mapping[str, Any]) -> None:
    from kernelbandits.theory.widths import exploration_from

    posterior = description.get("posterior")
    if isinstance(posterior, dict) and "function" in posterior:
        raise CannotSave(
            "A posterior made by a function of your own cannot be saved; one that posterior_factory names can."
        )
    if "exploration" in description:
        try:
            exploration_from(description["exploration"])
        except ForeignFile as error:
            raise CannotSave(f"An exploration schedule of your own cannot be saved: {error}") from error


def _plain_generator(rng: np.random.Generator) -> Any:
    state = dict(rng.bit_generator.state)
    if state["bit_generator"] not in GENERATORS:
        raise CannotSave(f"A file can hold NumPy's own bit generators, got {state['bit_generator']!r}.")
    return _to_json(state)


def _generator(state: Mapping[str, Any]) -> np.random.Generator:
    if state.get("bit_generator") not in GENERATORS:
        raise ForeignFile(f"The file names a generator that is not NumPy's own: {state.get('bit_generator')!r}.")
    bits = GENERATORS[state["bit_generator"]]()
    bits.state = state
    return np.random.Generator(bits)


def _to_json(value: Any) -> Any:
    """Arrays of unsigned 64-bit words (Philox, MT19937) as lists: a JSON integer has no largest value."""
    if isinstance(value, dict):
        return {key: _to_json(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value
