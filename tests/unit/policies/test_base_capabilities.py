"""The table of docs/policies.md says what the classes say."""

from pathlib import Path

import pytest

import kernelbandits.policies as policies
from kernelbandits.policies import Policy
from kernelbandits.policies.randomized import RandomizedPolicy

PAGE = Path(__file__).parents[3] / "docs" / "policies.md"
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text(encoding="utf-8").splitlines()]
TABLE = {row[0].strip("`"): row[1:] for row in ROWS if len(row) == 8 and row[0].startswith("`")}
WRAPPERS = {"Guarded", "Mixed", "Paced", "Softmax"}


def exported():
    named = {name: getattr(policies, name) for name in policies.__all__}
    return {name for name, value in named.items() if isinstance(value, type) and issubclass(value, Policy)} - {"Policy"}


def test_every_policy_stands_in_the_table():
    assert set(TABLE) == exported()


@pytest.mark.parametrize("name", sorted(set(TABLE) - WRAPPERS))
def test_the_table_is_true(name):
    policy = getattr(policies, name)
    sets, needs_range, slates, amends, warms, randomizes, mixes = TABLE[name]

    assert (sets == "one fixed") == policy.needs_fixed_actions
    assert (needs_range == "yes") == policy.needs_reward_range
    assert (slates == "yes") == (policy._ranking is not Policy._ranking)
    assert (amends == "yes") == (policy._amend_reward is not Policy._amend_reward)
    assert (warms == "yes") == (policy._warm_start is not Policy._warm_start)
    assert (randomizes == "yes") == (issubclass(policy, RandomizedPolicy) or name == "UniformRandom")
    assert (mixes == "yes") == policy.learns_from_any_action
