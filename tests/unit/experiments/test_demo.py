import json

import numpy as np
import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import simulate, start_world
from kernelbandits.experiments import demo_study, run_demo
from kernelbandits.experiments.demo import (
    ENVIRONMENT,
    FAILURE_PROBABILITY,
    KERNEL,
    NORM,
    PROVED,
    REGULARIZATION,
    SUP_PROVED,
    _bound_remark,
)
from kernelbandits.theory import effective_dimension, kappa, sup_kernel_ucb_bound

HORIZON, N_SEEDS = 15, 2


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_demo(tmp_path_factory.mktemp("demo"), horizon=HORIZON, n_seeds=N_SEEDS, workers=1)


def ranking(result):
    (rows,) = result.report.ranking.values()
    return rows


def regrets(result):
    return [(row.policy, row.regret.mean) for row in ranking(result)]


def trace(label, seed):
    (policy,) = (variant for variant in demo_study(horizon=HORIZON).variants if variant.label == label)
    return simulate(ENVIRONMENT, policy.build(seed), horizon=HORIZON, seed=seed)


def test_every_policy_has_a_row(result):
    assert {row.policy for row in ranking(result)} == set(demo_study().policies)


def test_rows_are_sorted_and_random_is_the_reference(result):
    regrets = [row.regret.mean for row in ranking(result)]

    assert regrets == sorted(regrets)
    assert {row.policy: row.relative_regret for row in ranking(result)}["Random"] == 1.0


def test_results_on_disk_are_the_results(result):
    stored = json.loads(result.files["numbers"].read_text(encoding="utf-8"))

    assert stored == json.loads(json.dumps(result.to_dict()))
    assert all(path.exists() for path in result.files.values())


def test_the_same_demo_again_gives_the_same_regrets(result, tmp_path):
    again = run_demo(tmp_path, horizon=HORIZON, n_seeds=N_SEEDS, workers=1)

    assert [(row.policy, row.regret.mean) for row in ranking(again)] == [
        (row.policy, row.regret.mean) for row in ranking(result)
    ]
    assert again.bounds == result.bounds


def test_the_page_shows_repeats_intervals_bounds_and_remarks(result):
    html = result.files["page"].read_text(encoding="utf-8")

    assert "Mean over 2 seeds" in html
    assert "95 % intervals (Student&#x27;s t over seeds)" in html
    assert "Dashed: proved bounds" in html
    assert "the bound after 15 rounds is" in html


def test_the_bound_of_kernel_ucb_is_its_formula(result):
    bounds = []
    for seed in range(N_SEEDS):
        run = trace(PROVED, seed)
        factor = np.sqrt(kappa(regularization=REGULARIZATION) * HORIZON * run.log_det_gain[-1])
        bounds.append(2 * run.exploration[-1] * factor)
        assert run.regret[-1] <= bounds[-1]

    assert result.bounds[PROVED] == pytest.approx(np.mean(bounds), rel=1e-9)


def test_the_bound_of_sup_kernel_ucb_is_its_formula(result):
    bounds = []
    for seed in range(N_SEEDS):
        run, world = trace(SUP_PROVED, seed), start_world(ENVIRONMENT, seed)
        gram = KERNEL.gram(np.array([world.observe().contexts[action] for action in run.action]))
        dimension = effective_dimension(gram, regularization=REGULARIZATION, horizon=HORIZON)
        bounds.append(
            sup_kernel_ucb_bound(
                horizon=HORIZON,
                n_actions=30,
                regularization=REGULARIZATION,
                effective_dimension=dimension,
                norm_bound=NORM,
                failure_probability=FAILURE_PROBABILITY,
                noise_scale=ENVIRONMENT.noise_scale,
            )
        )
        assert run.regret[-1] <= bounds[-1]

    assert result.bounds[SUP_PROVED] == pytest.approx(np.mean(bounds), rel=1e-9)


def test_every_run_satisfies_the_assumptions_of_the_proofs():
    norms = [start_world(ENVIRONMENT, seed).norm for seed in range(5)]

    np.testing.assert_allclose(norms, NORM)
    np.testing.assert_array_equal(KERNEL.diagonal(np.zeros((1, 2))), 1.0)


def test_a_vacuous_bound_is_called_vacuous(result):
    assert all(bound > HORIZON for bound in result.bounds.values())
    assert sum("the bound is vacuous" in remark for remark in result.remarks) == 2


def test_a_bound_below_the_horizon_is_not_called_vacuous():
    assert _bound_remark("p", 3.0, 5) == "p: the bound after 5 rounds is 3, below 5, the largest possible regret."


def test_the_folder_is_checked_before_anything_is_run(tmp_path):
    (tmp_path / "file").write_text("here already")

    with pytest.raises(InvalidParameter, match="cannot be made"):
        run_demo(tmp_path / "file", progress=lambda *_: pytest.fail("was run"))


@pytest.mark.parametrize("size", [{"horizon": 10**23}, {"n_seeds": 10**23}])
def test_a_demo_without_end_is_rejected(tmp_path, size):
    with pytest.raises(InvalidParameter, match="must be a whole number of at most 100"):
        run_demo(tmp_path, **size, progress=lambda *_: pytest.fail("was run"))


def test_kernel_ucb_learns_what_a_linear_rule_cannot():
    """With the same seed both get the same noise, so differences are taken seed by seed."""
    policies = {variant.label: variant for variant in demo_study(horizon=120).variants}
    linear, kernel = (
        np.array(
            [simulate(ENVIRONMENT, policies[name].build(seed), horizon=120, seed=seed).regret[-1] for seed in range(8)]
        )
        for name in ("LinUCB, tuned", "KernelUCB, tuned")
    )

    gain = linear - kernel

    assert gain.mean() > 4 * gain.std(ddof=1) / np.sqrt(len(gain))
