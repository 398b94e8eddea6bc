import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kernelbandits as kb

ROOT = Path(__file__).parents[2]
PACKAGES = [
    "adapters",
    "environments",
    "errors",
    "evaluation",
    "experiments",
    "kernels",
    "policies",
    "posterior",
    "service",
    "testing",
    "theory",
    "types",
]


@pytest.mark.parametrize("name", ["", *PACKAGES])
def test_all_names_can_be_had_and_are_sorted(name):
    module = importlib.import_module(f"kernelbandits.{name}".rstrip("."))

    for public in module.__all__:
        assert getattr(module, public) is not None
    constants = [n for n in module.__all__ if n.isupper()]
    classes = [n for n in module.__all__ if n[0].isupper() and not n.isupper()]
    functions = [n for n in module.__all__ if not n[0].isupper()]
    assert list(module.__all__) == sorted(constants) + sorted(classes) + sorted(functions)


def test_every_module_says_what_it_is_for():
    for module in pkgutil.walk_packages(kb.__path__, "kernelbandits."):
        if module.name != "kernelbandits.__main__":
            assert importlib.import_module(module.name).__doc__, module.name


def test_the_names_that_others_rely_on_are_there():
    assert kb.kernels.Gaussian(length_scale=0.5)
    assert kb.kernels.Spectrum(n=3)
    assert kb.kernels.Matern(smoothness=1.5, length_scale=0.5)
    assert issubclass(kb.errors.KernelBanditError, Exception)
    for name in ("KernelUCB", "SupKernelUCB", "LinUCB", "SupLinUCB", "GPUCB", "CGPUCB", "load", "simulate"):
        assert callable(getattr(kb, name))
    for name in ("effective_dimension", "information_gain", "theorem_1_bound"):
        assert callable(getattr(kb.theory, name))
    assert "KernelUCB" in dir(kb)
    with pytest.raises(AttributeError, match="no attribute 'KernelUBC'"):
        kb.KernelUBC  # noqa: B018


def in_a_fresh_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_loads_numpy_and_nothing_heavier():
    loaded = in_a_fresh_process(
        "import sys, kernelbandits as kb; kb.KernelUCB; kb.theory; kb.simulate;"
        "heavy = ('scipy', 'numba', 'sklearn', 'matplotlib', 'rich', 'pandas', 'pytest');"
        "print([name for name in heavy if name in sys.modules])"
    )

    assert loaded == "[]"


def test_importing_takes_little_longer_than_numpy():
    """What takes time is loading modules, and few are loaded on top of those of NumPy; the rest when it is used."""
    modules = in_a_fresh_process(
        "import sys, numpy, numpy.random, numpy.typing, hashlib, dataclasses; before = set(sys.modules);"
        "import kernelbandits; print(len(set(sys.modules) - before))"
    )

    assert int(modules) <= 20


@pytest.mark.parametrize("missing", ["sklearn", "matplotlib", "rich", "pandas", "pytest", "hypothesis"])
def test_the_core_works_without_optional_packages(missing):
    answer = in_a_fresh_process(
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import kernelbandits as kb\n"
        "policy = kb.KernelUCB(kb.kernels.Gaussian(length_scale=1.0))\n"
        "policy.learn(policy.choose([[0.0], [1.0]]), 1.0)\n"
        "print(policy.choose([[0.0], [1.0]]).action)"
    )

    assert answer in ("0", "1")


def test_links_of_the_package_page_are_absolute():
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    metadata = {"urls": {"Source": "https://host.example/tree/"}}

    build.ReadmeHook(str(ROOT), {}).update(metadata)

    links = re.findall(r"\]\(([^)]*)\)", metadata["readme"]["text"])
    local = [link.removeprefix("https://host.example/tree/") for link in links if "host.example" in link]
    assert all(link.startswith(("https://", "#")) for link in links)
    assert "docs/errata.md" in local
    assert all((ROOT / link.partition("#")[0]).exists() for link in local)
