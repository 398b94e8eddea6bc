"""No policy is exported without the contract that all of them keep."""

import ast
from pathlib import Path

import pytest

import kernelbandits.policies as policies
from kernelbandits.policies import Policy

FILES = sorted(Path(__file__).parent.glob("test_policy_contract*.py"))


def exported():
    named = {name: getattr(policies, name) for name in policies.__all__}
    return {name for name, value in named.items() if isinstance(value, type) and issubclass(value, Policy)} - {"Policy"}


def under_contract(source):
    """Names that are called within the test classes of a file: the policies that their fixtures make."""
    classes = [
        node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name.startswith("Test")
    ]
    calls = [node.func for owner in classes for node in ast.walk(owner) if isinstance(node, ast.Call)]
    named = [node for owner in classes for node in ast.walk(owner) if isinstance(node, ast.Attribute | ast.Name)]
    return {getattr(node, "attr", getattr(node, "id", None)) for node in [*calls, *named]}


def test_every_exported_policy_keeps_the_contract():
    covered = set().union(*(under_contract(path.read_text(encoding="utf-8")) for path in FILES))

    assert exported() - covered == set()


@pytest.mark.parametrize("name", ["KernelUCB", "UniformRandom"])
def test_a_policy_without_its_class_would_be_noticed(name):
    source = "\n".join(path.read_text(encoding="utf-8") for path in FILES).replace(f".{name}(", ".Other(")

    assert name not in under_contract(source)
