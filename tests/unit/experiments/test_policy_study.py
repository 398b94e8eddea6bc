import json
from math import nan
from pathlib import Path

import numpy as np
import pytest

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.policy_study import FIELD, PROBLEMS, run_policy_study
from kernelbandits.experiments.policy_study.problems import InUnitBall
from kernelbandits.experiments.policy_study.study import play_seed
from kernelbandits.experiments.policy_study.table import Standing, markdown_table, put_into_page
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import Policy
from kernelbandits.testing import EnvironmentContract


class TestInUnitBall(EnvironmentContract):
    @pytest.fixture
    def environment(self):
        kernel = Gaussian(length_scale=0.3)
        return InUnitBall(SyntheticRKHS(kernel, n_actions=4, n_features=3, noise="bernoulli"), 3)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_has_fixed_actions_in_the_unit_ball_and_rewards_of_0_and_1(problem):
    world = PROBLEMS[problem].environment.start(np.random.default_rng(2))

    first, second = world.observe(), world.observe()

    np.testing.assert_array_equal(first.contexts, second.contexts)
    assert np.linalg.norm(first.contexts, axis=1).max() <= 1.0
    assert {world.reward(row) for row in range(len(first.contexts))} <= {0.0, 1.0}
    assert first.expected.max() - first.expected.min() > 0.05


def test_every_policy_of_the_library_takes_part():
    import kernelbandits.policies as policies

    setting_of = _setting("smooth")
    playing = {type(contender.make(setting_of)).__name__ for contender in FIELD}

    known = {name for name in policies.__all__ if _is_policy(getattr(policies, name))}
    assert known - playing - NOT_FOR_FIXED_ROWS == set()


NOT_FOR_FIXED_ROWS = {"CGPUCB"}
"""Wants pairs of a context and an action."""


def _is_policy(value):
    return isinstance(value, type) and issubclass(value, Policy) and not value.__abstractmethods__


def _setting(problem):
    from kernelbandits.experiments.policy_study import Setting

    world = PROBLEMS[problem].environment.start(np.random.default_rng(0))
    return Setting(np.array(world.observe().contexts), 50, 0)


@pytest.mark.parametrize("contender", FIELD, ids=lambda contender: contender.name)
def test_every_contender_plays_every_problem(contender):
    for problem in PROBLEMS:
        regret, seconds = play_seed(problem, 0, 40, [contender.name])[contender.name]

        assert 0.0 <= regret <= 40.0
        assert seconds > 0.0


def test_a_study_writes_what_it_found(tmp_path):
    study = run_policy_study(tmp_path / "new", horizon=20, n_seeds=2, only=["KernelUCB", "Random"], workers=1)

    assert [standing.name for standing in study.standings] == ["KernelUCB", "Random"]
    assert json.loads(study.files["results"].read_text()) == study.to_dict()
    assert study.files["figure"].read_bytes().startswith(b"\x89PNG")
    table = study.files["table"].read_text()
    assert f"{study.standings[0].regret['smooth']:.0f} ± " in table
    assert len({len(line) for line in table.splitlines()[2:]}) == 1


def test_several_workers_find_the_same(tmp_path):
    alone, together = (
        run_policy_study(tmp_path, horizon=15, n_seeds=1, only=["Random"], workers=workers) for workers in (1, 2)
    )

    assert alone.standings[0].regret == together.standings[0].regret


@pytest.mark.parametrize("size", [{"horizon": 10**23}, {"n_seeds": 10**23}])
def test_a_study_without_end_is_refused(tmp_path, size):
    with pytest.raises(InvalidParameter, match="has to be a whole number of at most 100"):
        run_policy_study(tmp_path, **size)


def test_an_unknown_name_is_refused_with_those_that_are_known(tmp_path):
    with pytest.raises(InvalidParameter, match=r"'Nobody'. There are: .*'KernelUCB', 'KernelUCB, theory'"):
        run_policy_study(tmp_path, only=["Nobody"])


def test_a_table_is_put_between_the_marks_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: how -->\nold\n<!-- end of table -->\nafter\n", encoding="utf-8")

    for _ in range(2):
        put_into_page(page, "| new |\n")

    assert page.read_text() == "before\n<!-- table: how -->\n\n| new |\n\n<!-- end of table -->\nafter\n"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(InvalidParameter, match="no place for a table"):
        put_into_page(page, "| new |\n")


def test_the_page_of_the_docs_holds_the_table_that_was_written():
    docs = Path(__file__).parents[3] / "docs"

    assert (docs / "policies" / "policies.md").read_text(encoding="utf-8") in (docs / "policies.md").read_text("utf-8")


def test_one_seed_has_no_interval():
    standing = Standing(name="A", family="b", regret={"x": 1.0}, half_width={"x": nan}, seconds_per_round=1e-5)

    assert "| A      | b      | 1 |        10 µs |" in markdown_table([standing], "One run")
