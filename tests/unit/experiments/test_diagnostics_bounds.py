import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.evaluation import start_world
from kernelbandits.experiments.demo_study import (
    FAILURE_PROBABILITY,
    KERNEL,
    NORM,
    PROVED,
    REGULARIZATION,
    SUP_PROVED,
    WORLD,
    demo_comparison,
)
from kernelbandits.experiments.diagnostics import chosen_contexts, kernel_ucb_curve, sup_kernel_ucb_values
from kernelbandits.theory import kappa

HORIZON = 40


@pytest.fixture(scope="module")
def traces():
    return demo_comparison(horizon=HORIZON, n_seeds=2).run()


def test_kept_contexts_are_those_of_the_chosen_actions(traces):
    trace = traces[PROVED][1]

    contexts = np.concatenate(chosen_contexts(trace))

    assert_allclose(start_world(WORLD, 1).expected(contexts), trace.expected)
    gram = KERNEL.gram(contexts) / REGULARIZATION
    assert_allclose(np.linalg.slogdet(np.eye(HORIZON) + gram)[1], trace.log_det_gain[-1])


def test_the_curve_is_the_formula_and_lies_above_the_regret(traces):
    rounds, values = kernel_ucb_curve(traces[PROVED], regularization=REGULARIZATION)

    last = [
        2 * run.exploration[-1] * np.sqrt(kappa(regularization=REGULARIZATION) * HORIZON * run.log_det_gain[-1])
        for run in traces[PROVED]
    ]
    assert (rounds[0], rounds[-1]) == (1, HORIZON)
    assert_allclose(values[-1], np.mean(last))
    mean_regret = np.mean([run.regret for run in traces[PROVED]], axis=0)
    assert np.all(values >= mean_regret[rounds - 1])


def test_the_other_bound_lies_above_the_regret_of_each_run(traces):
    values = sup_kernel_ucb_values(
        traces[SUP_PROVED],
        kernel=KERNEL,
        regularization=REGULARIZATION,
        norm_bound=NORM,
        noise_scale=WORLD.noise_scale,
        failure_probability=FAILURE_PROBABILITY,
    )

    assert values.shape == (2,)
    assert np.all(values >= [run.regret[-1] for run in traces[SUP_PROVED]])


def test_every_run_of_the_demo_meets_the_norm_that_its_proofs_assume():
    norms = [start_world(WORLD, seed).norm for seed in range(5)]

    assert_allclose(norms, NORM)
    assert_array_equal(KERNEL.diagonal(np.zeros((1, 2))), 1.0)
