"""A valid call of every public class and function, and what an object is used for once it exists."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np

import kernelbandits as kb
from kernelbandits.environments import Clustered, Log
from kernelbandits.errors import KernelBanditError
from kernelbandits.kernels import Delta, Gaussian, Linear, PairProduct, Rows, SimilarityTable, Spectrum
from kernelbandits.policies.experts import linear_experts
from kernelbandits.posterior import posterior_factory
from kernelbandits.types import Prediction, StageStep

__all__ = ["LEFT_OUT", "TARGETS", "callable_of", "folder", "gaussian", "log_of_rows", "public_names", "rows"]

PACKAGES = (
    "kernels", "posterior", "selection", "theory", "policies", "policies.experts", "environments", "evaluation",
    "adapters", "types",
)  # fmt: skip


@cache
def _temporary() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="kernelbandits-fuzz-")


def folder() -> Path:
    """The folder for all files of the calls; it is removed when the process ends."""
    return Path(_temporary().name)


def rows(n=4, seed=0):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, size=(n, 3))


WORDS = ["cheap flights", "cheap fights", "slow cooking", "quick soup"]


def gaussian():
    return Gaussian(length_scale=1.0)


def no_arrays():
    return {}


def log_of_rows():
    return Log([rows(seed=t) for t in range(6)], [0, 1, 2, 3, 0, 1], [0.25] * 6, [0.0, 1.0, 0.5, 0.2, 0.1, 0.7])


def log_of_pairs():
    rounds = [kb.Pairs(rows(seed=t)[0], np.eye(3)) for t in range(3)]
    return Log(rounds, [0, 1, 2], [0.5] * 3, [0.0, 1.0, 0.5])


def trace():
    return kb.simulate(Clustered(n_actions=3), kb.KernelUCB(gaussian()), horizon=5, seed=0)


def steps():
    prediction = Prediction(np.array([0.1, 0.2]), np.array([0.3, 0.4]))
    return [StageStep(1, np.array([0, 1]), prediction, np.array([0.3, 0.4]), "explore")]


# -- how an object is used ---------------------------------------------------------------------------------------------


def use_nothing(_made: Any) -> None:
    """A value: there is nothing more to do with it."""


def tolerant(step: Callable[[], Any]) -> Any:
    """The answer, or None where the library refused."""
    with suppress(KernelBanditError):
        return step()
    return None


def use_policy(policy: Any, contexts: Any = None) -> None:
    contexts = rows() if contexts is None else contexts
    for reward in (0.25, 0.75):
        decision = tolerant(lambda: policy.choose(contexts))
        if decision is not None:
            tolerant(lambda decision=decision, reward=reward: policy.learn(decision, reward))
    tolerant(lambda: policy.choose(contexts, k=2))
    tolerant(lambda: policy.probabilities(contexts))
    decision = tolerant(lambda: policy.choose(contexts))
    if decision is not None:
        tolerant(lambda: policy.expect(decision))
        tolerant(lambda: policy.choose(contexts))
        tolerant(lambda: policy.explain(decision))
        tolerant(lambda: policy.learn(decision, 0.5))
    tolerant(policy.describe)
    repr(policy)
    tolerant(lambda: policy.save(folder() / "policy.kb"))


def use_kernel(kernel: Any, points: Any = None) -> None:
    points = rows() if points is None else points
    tolerant(lambda: kernel.gram(kernel.kind.check(points)))
    tolerant(lambda: kernel.diagonal(kernel.kind.check(points)))
    tolerant(lambda: kernel.describe())
    tolerant(lambda: kernel.pack())
    repr(kernel)
    tolerant(lambda: use_posterior(posterior_factory("auto")(kernel, 1.0), points))


def use_posterior(posterior: Any, points: Any = None) -> None:
    points = rows() if points is None else points
    tolerant(lambda: posterior.observe(points, np.linspace(0.0, 1.0, 4)))
    tolerant(lambda: posterior.predict(points))
    tolerant(lambda: posterior.log_det_gain)
    tolerant(posterior.state)


def use_dictionary(rule):
    """Observe with a dictionary by this rule."""
    if isinstance(rule, kb.posterior.Dictionary):
        use_posterior(kb.posterior.NystroemPosterior(gaussian(), regularization=1.0, dictionary=rule))


def use_factory(factory: Any) -> None:
    posterior = tolerant(lambda: factory(gaussian(), 1.0))
    if isinstance(posterior, kb.posterior.Posterior):
        use_posterior(posterior)


def use_environment(environment: Any) -> None:
    tolerant(lambda: environment.describe())
    tolerant(lambda: environment.reward_range)
    tolerant(lambda: kb.simulate(environment, kb.UniformRandom(seed=0), horizon=3, seed=0))


def use_schedule(schedule: Any) -> None:
    situation = kb.theory.RoundState(round_index=3, n_actions=4, log_det_gain=1.5, regularization=0.5)
    tolerant(lambda: schedule(situation))
    tolerant(lambda: schedule.violated_assumption(situation))
    tolerant(lambda: use_policy(kb.KernelUCB(gaussian(), exploration=schedule)))


def use_estimator(estimator: Any) -> None:
    tolerant(lambda: estimator.estimate(log_of_rows(), kb.UniformRandom(seed=0)))


def use_log(log: Any) -> None:
    tolerant(lambda: kb.evaluation.IPS().estimate(log, kb.UniformRandom(seed=0)))
    tolerant(lambda: log[1:])
    tolerant(lambda: log.n_actions)


def use_sequence(sequence: Any) -> None:
    tolerant(lambda: sequence.add([0.25, 0.5]))
    tolerant(sequence.estimate)


def use_comparison(comparison: Any) -> None:
    tolerant(lambda: comparison.add(first=[0.25, 0.5], second=[0.5]))
    tolerant(comparison.estimate)


def use_catalog(catalog: Any) -> None:
    for policy in (kb.KernelUCB(gaussian()), kb.UniformRandom(seed=0)):
        decision = tolerant(lambda policy=policy: policy.choose(catalog))
        if decision is not None:
            tolerant(lambda policy=policy, decision=decision: policy.learn(decision, 0.5))
            tolerant(lambda policy=policy: policy.choose(catalog))


def use_box(box: Any) -> None:
    policy = kb.KernelUCB(gaussian())
    for _ in range(2):
        decision = tolerant(lambda: policy.choose(box))
        if decision is not None:
            tolerant(lambda decision=decision: policy.learn(decision, 0.5))


def use_kind(kind: Any) -> None:
    for points in (rows(), WORDS, [1, 2, 3]):
        checked = tolerant(lambda points=points: kind.check(points))
        if checked is not None:
            kind.count(checked)
            tolerant(lambda checked=checked: kind.pack(checked))


def use_expert(expert: Any) -> None:
    tolerant(lambda: use_policy(kb.EXP4([expert], horizon=10, seed=0)))


def use_experts(experts: Any) -> None:
    tolerant(lambda: use_policy(kb.EXP4(experts, horizon=10, seed=0)))


def use_table(table: Any) -> None:
    tolerant(lambda: use_kernel(kb.kernels.Precomputed(table), [0, 1]))


def use_regressor(regressor: Any) -> None:
    tolerant(lambda: regressor.fit(rows(), [0.0, 0.2, 0.4, 0.6]).decision_function(rows(seed=1)))


def use_learner(learner: Any) -> None:
    predicted = tolerant(lambda: learner.predict((0.5, 0.1), [(1, 0), (0, 1)]))
    if predicted is not None:
        action, probability, extra = predicted
        tolerant(lambda: learner.learn((0.5, 0.1), action, 0.5, probability, **extra))


def use_coba_points(points: Any) -> None:
    tolerant(lambda: points((0.5, 0.1), [(1, 0), (0, 1)]))
    tolerant(lambda: points({"a": 1.0}, [{"b": "x"}, {"c": 2.0}]))


def use_round(shown: Any) -> None:
    tolerant(lambda: use_environment(_Shown(shown)))


class _Shown:
    """A world that shows one round again and again."""

    reward_range = None

    def __init__(self, shown):
        self._shown = shown

    def start(self, _rng):
        return kb.environments.DrawnRounds(iter([(self._shown, np.zeros(4))] * 3))

    def describe(self):
        return {"class": "_Shown"}


# -- valid calls -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A public callable, with a valid call and the use of what it gives."""

    arguments: Callable[[], dict[str, Any]] = dict
    use: Callable[[Any], None] = use_nothing
    functions: tuple[str, ...] = ()
    """Parameters that take functions of the user: what those raise is not ours."""
    rounds: tuple[str, ...] = ()
    """Parameters that say how many rounds to simulate: a large number is valid, and takes its time."""


def calls(
    use: Callable[[Any], None] = use_nothing,
    functions: tuple[str, ...] = (),
    rounds_in: tuple[str, ...] = (),
    **arguments: Any,
) -> Target:
    """Arguments as functions without parameters are called for every call, others are values."""

    def fresh() -> dict[str, Any]:
        return {name: value() if inspect.isfunction(value) else value for name, value in arguments.items()}

    return Target(fresh, use, functions, rounds_in)


PROBABLE = {"noise_scale": 0.5, "norm_bound": 1.0, "failure_probability": 0.1}
OVER_EXPERTS = {"experts": lambda: linear_experts(3, n_experts=3, seed=1), "seed": 0}


def _words(policy: Any) -> None:
    use_policy(policy, WORDS)


def _pairs(policy: Any) -> None:
    use_policy(policy, kb.Pairs([0.5, 0.1], WORDS))


def _labeled(kernel: Any) -> None:
    use_kernel(kernel, kb.Pairs([0.5, 0.1, 0.2], WORDS))


TARGETS: dict[str, Target] = {
    # -- kernels
    "kernels.Blocks": calls(use_kernel, kernel=gaussian),
    "kernels.Columns": calls(use_kernel, kernel=gaussian, columns=lambda: [0, 2]),
    "kernels.Constant": calls(use_kernel),
    "kernels.Cosine": calls(use_kernel),
    "kernels.Delta": calls(use_kernel, kind=lambda: Rows()),
    "kernels.FromCallable": calls(
        use_kernel, ("function", "diagonal"), function=lambda: _inner_product, kind=lambda: Rows()
    ),
    "kernels.FromScikitLearn": calls(use_kernel, kernel=lambda: _scikit_learn_kernel()),
    "kernels.Gaussian": calls(use_kernel, length_scale=1.0),
    "kernels.Jaccard": calls(lambda kernel: use_kernel(kernel, [{"a", "b"}, {"b"}, {"c", 1}, {1}])),
    "kernels.LabeledLinear": calls(_labeled, shared_columns=lambda: [1]),
    "kernels.Laplacian": calls(use_kernel, length_scale=1.0),
    "kernels.Linear": calls(use_kernel),
    "kernels.Matern": calls(use_kernel, length_scale=1.0, smoothness=1.5),
    "kernels.Normalized": calls(use_kernel, kernel=lambda: Linear() + 1.0),
    "kernels.Objects": calls(use_kind, ("key", "pack", "unpack")),
    "kernels.PairPoints": calls(use_kind, context=lambda: Rows(), action=lambda: kb.kernels.Strings()),
    "kernels.PairProduct": calls(
        lambda kernel: use_kernel(kernel, kb.Pairs([0.5, 0.1, 0.2], WORDS)),
        context=gaussian,
        action=lambda: Spectrum(n=2),
    ),
    "kernels.PairSum": calls(
        lambda kernel: use_kernel(kernel, kb.Pairs([0.5, 0.1, 0.2], WORDS)),
        context=gaussian,
        action=lambda: Spectrum(n=2),
    ),
    "kernels.Polynomial": calls(use_kernel, degree=2),
    "kernels.Positionwise": calls(
        lambda kernel: use_kernel(kernel, ["acgt", "acga", "tcga", "aaaa"]), length_scale=1.0
    ),
    "kernels.Precomputed": calls(lambda kernel: use_kernel(kernel, [0, 1, 2, 3]), table=lambda: np.eye(4) + 0.5),
    "kernels.Product": calls(use_kernel, parts=lambda: (gaussian(), Linear())),
    "kernels.QuadratureFourier": calls(use_kernel, kernel=gaussian, extent=lambda: [3.0, 3.0, 3.0], accuracy=0.1),
    "kernels.RandomFourier": calls(use_kernel, kernel=gaussian, n_columns=3, n_frequencies=5, orthogonal=True, seed=0),
    "kernels.RationalQuadratic": calls(use_kernel, length_scale=1.0),
    "kernels.Scaled": calls(use_kernel, kernel=gaussian, factor=2.0),
    "kernels.SimilarityTable": calls(use_table, similarities=lambda: np.eye(3) + 0.5, ids=lambda: [0, 1, 2]),
    "kernels.Spectrum": calls(
        lambda kernel: use_kernel(kernel, WORDS), n=lambda: (1, 2), analyzer="word", lowercase=True
    ),
    "kernels.Sum": calls(use_kernel, parts=lambda: (gaussian(), Linear())),
    "kernels.TableIds": calls(use_kind, table=lambda: SimilarityTable(np.eye(4))),
    "kernels.TfIdf": calls(
        lambda kernel: use_kernel(kernel, WORDS), corpus=lambda: list(WORDS), analyzer="word", lowercase=True
    ),
    "kernels.as_kernel": calls(use_kernel, ("kernel",), kernel=gaussian),
    "kernels.detect": calls(table=lambda: np.eye(4) + 0.5),
    "kernels.kind_of": calls(use_kind, points=rows),
    "kernels.median_length_scale": calls(points=rows, seed=0),
    "kernels.repair": calls(lambda made: use_table(made[0]), table=lambda: np.eye(4) + 0.5),
    "kernels.unpack_kernel": calls(
        use_kernel, parameters=lambda: {"class": "Gaussian", "length_scale": 1.0}, arrays=no_arrays
    ),
    # -- posteriors
    "posterior.AutoPosterior": calls(use_posterior, kernel=gaussian, regularization=1.0),
    "posterior.LowRankPosterior": calls(use_posterior, kernel=gaussian, regularization=1.0),
    "posterior.DevicePosterior": calls(
        use_posterior, kernel=gaussian, regularization=1.0, device="cpu", array_library="array_api_strict"
    ),
    "posterior.ExactPosterior": calls(use_posterior, kernel=gaussian, regularization=1.0),
    "posterior.ForgettingPosterior": calls(use_posterior, kernel=gaussian, regularization=1.0, rate=0.9),
    "posterior.BatchedResampling": calls(
        use_dictionary, oversampling=2.0, threshold=2.0, batch="mean", size=lambda: None
    ),
    "posterior.LogisticPosterior": calls(use_posterior, kernel=gaussian, regularization=1.0),
    "posterior.NystroemPosterior": calls(
        use_posterior, kernel=gaussian, regularization=1.0, dictionary=lambda: kb.posterior.Resampling(), seed=1
    ),
    "posterior.OnlineRowSampling": calls(use_dictionary, oversampling=2.0, accuracy=0.5, projection=1.0, size=10),
    "posterior.Resampling": calls(use_dictionary, oversampling=2.0, size=10),
    "posterior.Refit": calls(every=3, criterion="leave_one_out", most=5),
    "posterior.ResidualDictionary": calls(use_dictionary, size=2, tolerance=0.01, accuracy=lambda: None),
    "posterior.NamedPosterior": calls(use_factory, name="windowed", options=lambda: {"length": 20}),
    "posterior.PartitionedPosterior": calls(
        lambda made: use_posterior(made, kb.Pairs([0.5, 0.1, 0.2], WORDS)),
        kernel=lambda: PairProduct(Linear(), Delta()),
        regularization=1.0,
    ),
    "posterior.PerActionPosterior": calls(
        lambda made: use_posterior(made, kb.Pairs([0.5, 0.1, 0.2], WORDS)),
        kernel=lambda: kb.kernels.LabeledLinear(),
        regularization=1.0,
    ),
    "posterior.PrimalPosterior": calls(use_posterior, kernel=lambda: Linear(), regularization=1.0),
    "posterior.WindowedPosterior": calls(use_posterior, kernel=gaussian, regularization=1.0, length=20),
    "posterior.cheapest_exact": calls(use_posterior, kernel=gaussian, regularization=1.0),
    "posterior.describe_posterior": calls(factory=lambda: posterior_factory("exact")),
    "posterior.fit_kernel": calls(
        candidates=lambda: [gaussian(), Linear()],
        points=lambda: rows(8),
        rewards=lambda: np.linspace(0.0, 1.0, 8),
        regularization=lambda: [0.1, 1.0],
        seed=0,
    ),
    "posterior.optimize_kernel": calls(
        kernel=gaussian,
        points=lambda: rows(8),
        rewards=lambda: np.linspace(0.0, 1.0, 8),
        times=1,
        regularization=0.5,
        criterion="leave_one_out",
        most=5,
    ),
    "posterior.posterior_factory": calls(use_factory, ("name",), name="exact"),
    "posterior.posterior_from": calls(use_factory, description="exact"),
    # -- selection
    "selection.Box": calls(use_box, low=lambda: [0.0, 1.0, 2.0], high=lambda: [1.0, 2.0, 2.0]),
    "selection.Product": calls(use_box, context=lambda: np.ones(1), box=lambda: kb.Box([0.0, 1.0], [1.0, 2.0])),
    "selection.Catalog": calls(use_catalog, items=rows, ids=lambda: ["a", "b", "c", "d"]),
    "selection.set_threads": calls(lambda _made: kb.set_threads(None), n=1),
    # -- theory
    "theory.Constant": calls(use_schedule),
    "theory.FixedDesign": calls(use_schedule, **PROBABLE, n_actions=4, horizon=10),
    "theory.GPUCBAgnostic": calls(use_schedule, norm_bound=1.0, failure_probability=0.1),
    "theory.GPUCBFinite": calls(use_schedule, failure_probability=0.1),
    "theory.IGPUCB": calls(use_schedule, **PROBABLE, horizon=10),
    "theory.Mixture": calls(use_schedule, **PROBABLE),
    "theory.SelfNormalized": calls(use_schedule, **PROBABLE),
    "theory.RoundState": calls(
        lambda made: tolerant(lambda: kb.theory.Mixture(**PROBABLE)(made)),
        round_index=1,
        n_actions=4,
        log_det_gain=1.5,
        regularization=1.0,
        is_continuous=False,
    ),
    "theory.as_exploration": calls(use_schedule, ("value",), value=0.5),
    "theory.balanced_regularization": calls(**PROBABLE, n_actions=4, horizon=10),
    "theory.compare_bounds": calls(
        lambda made: tolerant(lambda: kb.theory.format_bounds(made)),
        horizon=100,
        n_actions=4,
        n_features=3,
        effective_dimension=2.0,
        log_det_gain=3.0,
        exploration=1.0,
        information_gain=1.5,
        n_experts=5,
        gaps=lambda: [0.1, 0.2],
    ),
    "theory.confidence_ball_bound": calls(horizon=100, n_features=3, failure_probability=0.1),
    "theory.effective_dimension": calls(gram=lambda: np.eye(4), regularization=1.0, horizon=10),
    "theory.effective_dimension_bound": calls(scale=3.0, decay=1.5, regularization=1.0, horizon=10),
    "theory.elliptical_potential": calls(widths=lambda: [1.0, 0.5], log_det_gain=2.0, regularization=1.0),
    "theory.exp4_bound": calls(horizon=100, n_actions=4, n_experts=5),
    "theory.exp4p_bound": calls(horizon=100, n_actions=4, n_experts=5, failure_probability=0.1),
    "theory.exploration_from": calls(use_schedule, description=lambda: {"class": "Constant", "value": 0.5}),
    "theory.finite_dimension_gain": calls(horizon=100, n_dimensions=3, noise_variance=1.0),
    "theory.format_bounds": calls(rows=lambda: kb.theory.compare_bounds(horizon=100, n_actions=4, n_features=3)),
    "theory.gain_and_dimension": calls(gram=lambda: np.eye(4), regularization=1.0, noise_variance=1.0, horizon=10),
    "theory.gp_ucb_agnostic_bound": calls(
        horizon=100, information_gain=3.0, noise_variance=1.0, norm_bound=1.0, failure_probability=0.1
    ),
    "theory.gp_ucb_bound": calls(
        horizon=100, n_actions=4, information_gain=1.5, noise_variance=0.5, failure_probability=0.1
    ),
    "theory.horizon_logarithm": calls(horizon=100, effective_dimension=2.0, regularization=1.0),
    "theory.information_gain": calls(gram=lambda: np.eye(4), noise_variance=1.0),
    "theory.information_gain_rate": calls(
        kernel=lambda: kb.kernels.Gaussian(length_scale=1.0), horizon=10, n_features=2
    ),
    "theory.interlacing": calls(before=lambda: [2.0, 1.0], after=lambda: [3.0, 1.5, 0.5]),
    "theory.kappa": calls(regularization=1.0),
    "theory.kernel_ucb_bound": calls(horizon=100, regularization=1.0, log_det_gain=3.0, exploration=1.0),
    "theory.kernel_ucb_trace_bound": calls(explorations=lambda: [1.0, 1.0], widths=lambda: [0.5, 0.4]),
    "theory.leading_spectrum": calls(gram=lambda: np.eye(4), n=2),
    "theory.lemma_1": calls(
        prediction=lambda: Prediction(np.zeros(2), np.ones(2)), truth=lambda: [0.1, 0.2], scale=1.0
    ),
    "theory.lemma_2": calls(features=lambda: np.eye(3), gram=lambda: np.eye(3)),
    "theory.lemma_3": calls(before=lambda: [2.0, 1.0], after=lambda: [3.0, 1.5, 0.5], width=0.5, regularization=1.0),
    "theory.lemma_4": calls(widths=lambda: [1.0, 0.5], effective_dimension=2.0, regularization=1.0, horizon=10),
    "theory.lemma_5": calls(stage_size=3, stage=1, scale=1.0, effective_dimension=2.0, regularization=1.0, horizon=10),
    "theory.lemma_6": calls(original=lambda: [steps()], replaced=lambda: [steps()], stage=1),
    "theory.lemma_7": calls(walk=steps, truth=lambda: [0.1, 0.2], scale=1.0),
    "theory.log_det_gain": calls(gram=lambda: np.eye(4), regularization=1.0),
    "theory.maximum_information_gain": calls(gram=lambda: np.eye(4), horizon=3, noise_variance=1.0),
    "theory.n_stages": calls(horizon=100),
    "theory.oful_bound": calls(horizon=100, n_features=3, regularization=1.0, norm_bound=1.0, failure_probability=0.1),
    "theory.policy_elimination_bound": calls(horizon=100, n_actions=4, n_policies=5, failure_probability=0.1),
    "theory.pseudo_to_realized": calls(horizon=100, failure_probability=0.1),
    "theory.shrinking_widths": calls(before=lambda: [1.0, 0.5], after=lambda: [0.9, 0.5]),
    "theory.simple_regularization": calls(noise_scale=0.5, norm_bound=1.0),
    "theory.statistical_dimension": calls(gram=lambda: np.eye(4), regularization=1.0),
    "theory.sup_kernel_ucb_anytime_scale": calls(round_index=3, n_actions=4, failure_probability=0.1, norm_bound=1.0),
    "theory.sup_kernel_ucb_bound": calls(
        horizon=100, n_actions=4, regularization=1.0, effective_dimension=2.0, norm_bound=1.0, failure_probability=0.1
    ),
    "theory.sup_kernel_ucb_data_bound": calls(
        scale=1.0, horizon=100, regularization=1.0, stage_sizes=lambda: [1, 2], stage_log_det_gains=lambda: [0.5, 1.0]
    ),
    "theory.sup_kernel_ucb_scale": calls(horizon=100, n_actions=4, failure_probability=0.1, norm_bound=1.0),
    "theory.sup_lin_rel_bound": calls(horizon=100, n_actions=4, n_features=3),
    "theory.theorem_1_bound": calls(
        horizon=100, n_actions=4, regularization=1.0, effective_dimension=2.0, norm=1.0, failure_probability=0.1
    ),
    "theory.ucb1_bound": calls(gaps=lambda: [0.1, 0.2], horizon=100),
    # -- policies
    "policies.BaseKernelUCB": calls(kernel=gaussian, regularization=1.0),
    "policies.CGPUCB": calls(
        _pairs, context_kernel=gaussian, action_kernel=lambda: Spectrum(n=2), noise_variance=0.5, seed=0
    ),
    "policies.ConstantGapWeight": calls(
        lambda made: tolerant(lambda: use_policy(kb.KernelSquareCB(gaussian(), gap_weight=made, seed=0))), value=2.0
    ),
    "policies.ConfidenceBall": calls(use_policy, actions=rows),
    "policies.ContextualZooming": calls(use_policy, ("distance",), kernel=gaussian, horizon=20),
    "policies.EXP4": calls(use_policy, **OVER_EXPERTS, horizon=20),
    "policies.EXP4P": calls(use_policy, **OVER_EXPERTS, horizon=20),
    "policies.EpochGreedy": calls(use_policy, **OVER_EXPERTS, n_actions=4),
    "policies.Event": calls(
        lambda made: tolerant(lambda: made.apply(kb.LinUCB())),
        kind="learn",
        decision=lambda: kb.LinUCB().choose(rows()),
        reward=0.5,
    ),
    "policies.BBKB": calls(use_policy, kernel=gaussian, threshold=2.0, oversampling=5.0, seed=0),
    "policies.BKB": calls(use_policy, kernel=gaussian, oversampling=5.0, seed=0),
    "policies.CBBKB": calls(use_policy, kernel=gaussian, threshold=2.0, oversampling=5.0, seed=0),
    "policies.EKUCB": calls(use_policy, kernel=gaussian, oversampling=2.0, accuracy=0.5, projection=1.0, seed=0),
    "policies.MiniBatchGPUCB": calls(use_policy, kernel=gaussian, noise_variance=0.5, threshold=2.0, seed=0),
    "policies.GPUCB": calls(use_policy, kernel=gaussian, noise_variance=0.5, seed=0),
    "policies.GridGP": calls(use_policy, actions=rows, kernel=gaussian, horizon=20),
    "policies.GrowingGapWeight": calls(
        lambda made: tolerant(lambda: use_policy(kb.KernelSquareCB(gaussian(), gap_weight=made, seed=0)))
    ),
    "policies.Guarded": calls(use_policy, policy=lambda: kb.KernelUCB(gaussian()), baseline=1),
    "policies.ILOVETOCONBANDITS": calls(use_policy, **OVER_EXPERTS, n_actions=4),
    "policies.KLUCB": calls(use_policy, seed=0),
    "policies.KernelEpochGreedy": calls(use_policy, kernel=gaussian, n_actions=4, seed=0),
    "policies.KernelSquareCB": calls(use_policy, ("gap_weight",), kernel=gaussian, seed=0),
    "policies.KernelThompson": calls(use_policy, kernel=gaussian, seed=0, propensity_draws=8, n_features=20),
    "policies.KernelUCB": calls(use_policy, kernel=gaussian, seed=0),
    "policies.LinUCB": calls(use_policy, seed=0),
    "policies.Mixed": calls(use_policy, policy=lambda: kb.KernelUCB(gaussian()), epsilon=0.2, seed=0),
    "policies.OFUL": calls(use_policy, noise_scale=0.5, norm_bound=1.0, seed=0),
    "policies.PACBayes": calls(use_policy, centers=rows, n_actions=4, seed=0),
    "policies.Paced": calls(
        use_policy, policy=lambda: kb.KernelUCB(gaussian()), allowance=5.0, horizon=20, price=0.1, costs=0.01
    ),
    "policies.PEGE": calls(use_policy, actions=rows),
    "policies.PhasedElimination": calls(use_policy, kernel=gaussian, actions=rows),
    "policies.PolicyElimination": calls(use_policy, **OVER_EXPERTS, n_actions=4),
    "policies.RandomizedUCB": calls(use_policy, **OVER_EXPERTS, n_actions=4, most_steps=20),
    "policies.Softmax": calls(use_policy, policy=lambda: kb.KernelUCB(gaussian()), temperature=0.5, seed=0),
    "policies.SupKernelUCB": calls(use_policy, kernel=gaussian, horizon=20, n_actions=4),
    "policies.SupLinRel": calls(use_policy, horizon=20, n_actions=4),
    "policies.SupLinUCB": calls(use_policy, horizon=20, n_actions=4),
    "policies.UCB1": calls(use_policy, seed=0),
    "policies.UncertaintyEllipsoid": calls(use_policy, actions=rows),
    "policies.UniformRandom": calls(use_policy, seed=0),
    "policies.VE": calls(
        use_policy, policies=lambda: linear_experts(3, n_experts=3, seed=1), horizon=90, vc_dimension=2, seed=0
    ),
    "policies.load": calls(use_policy, path=lambda: _saved_policy()),
    # -- experts
    "policies.experts.ConstantExpert": calls(use_expert, action=1),
    "policies.experts.GreedyRidge.taught": calls(
        use_expert, kernel=gaussian, contexts=rows, rewards=lambda: [0.1, 0.2, 0.3, 0.4], regularization=0.5
    ),
    "policies.experts.LinearScorer": calls(use_expert, weights=lambda: (0.1, 0.2, 0.3)),
    "policies.experts.Stump": calls(use_expert, column=0, threshold=0.1, below=0, above=1),
    "policies.experts.StumpClass": calls(
        lambda made: tolerant(lambda: use_policy(kb.VE(made, horizon=90, vc_dimension=2, seed=0))),
        columns=lambda: [0, 2],
        n_actions=3,
    ),
    "policies.experts.UniformExpert": calls(use_expert),
    "policies.experts.constant_experts": calls(use_experts, n_actions=4),
    "policies.experts.k_means_centers": calls(
        lambda made: tolerant(lambda: use_policy(kb.PACBayes(made, n_actions=4, seed=0))),
        contexts=lambda: rows(8),
        n_centers=2,
        seed=0,
    ),
    "policies.experts.linear_experts": calls(use_experts, n_features=3, n_experts=3, seed=0),
    "policies.experts.ridge_experts": calls(
        use_experts,
        kernels=lambda: [gaussian()],
        contexts=rows,
        rewards=lambda: [0.1, 0.2, 0.3, 0.4],
        regularization=lambda: [0.5],
    ),
    "policies.experts.stump_experts": calls(use_experts, contexts=rows, n_actions=3, per_feature=2),
    # -- environments
    "environments.Bump": calls(use_environment),
    "environments.Candidates": calls(
        use_environment, items=lambda: rows(8), values=lambda: np.linspace(0.0, 1.0, 8), n_actions=3
    ),
    "environments.Chessboard": calls(use_environment),
    "environments.Classification": calls(use_environment, features=lambda: rows(8), labels=lambda: list("abcaabbc")),
    "environments.Clustered": calls(use_environment, n_actions=4),
    "environments.CosineWave": calls(use_environment, n_features=3, seed=0),
    "environments.Delayed": calls(use_environment, ("delay",), environment=lambda: Clustered(n_actions=3), delay=1),
    "environments.Drifting": calls(
        use_environment, before=lambda: Clustered(n_actions=3), after=lambda: Clustered(n_actions=3), change_at=2
    ),
    "environments.FixedCatalog": calls(use_environment, items=rows, values=lambda: [0.1, 0.2, 0.3, 0.4]),
    "environments.InnerSquare": calls(use_environment, n_features=3, seed=0),
    "environments.Log": calls(
        use_log,
        rounds=lambda: [rows(), rows(3, 1)],
        actions=lambda: [0, 2],
        propensities=lambda: [0.5, 0.25],
        rewards=lambda: [1.0, 0.0],
    ),
    "environments.click_rewards": calls(places=lambda: [0, None], k=2),
    "environments.Logged": calls(use_environment, log=log_of_rows),
    "environments.QuadraticForm": calls(use_environment, n_features=3, seed=0),
    "environments.RKHSFunction": calls(
        lambda made: (tolerant(lambda: made(rows())), tolerant(lambda: made.norm)),
        kernel=gaussian,
        centers=rows,
        coefficients=lambda: np.array([0.1, 0.2, 0.3, 0.4]),
    ),
    "environments.Round": calls(use_round, contexts=rows),
    "environments.StepDiagonal": calls(use_environment),
    "environments.SyntheticRKHS": calls(use_environment, kernel=gaussian, n_actions=4, n_features=3, seed=0),
    "environments.Wheel": calls(use_environment, radius=0.5),
    "environments.encode_columns": calls(
        columns=lambda: {"a": np.array([1.0, 2.0, 3.0]), "b": np.array(["x", "y", "x"])}, categorical=lambda: ["b"]
    ),
    "environments.from_file": calls(use_environment, name="agnews", path=lambda: _news()),
    "environments.scaled_values": calls(values=lambda: np.array([0.5, 1.0, 2.0]), scale="rank"),
    # -- evaluation
    "evaluation.ABComparison": calls(use_comparison, failure_probability=0.05, reward_range=lambda: (0.0, 1.0)),
    "evaluation.ConfidenceSequence": calls(use_sequence, failure_probability=0.05, reward_range=lambda: (0.0, 1.0)),
    "evaluation.DirectMethod": calls(use_estimator, kernel=gaussian),
    "evaluation.DoublyRobust": calls(use_estimator, model=lambda: kb.evaluation.DirectMethod(gaussian())),
    "evaluation.IPS": calls(use_estimator),
    "evaluation.MarginalizedIPS": calls(use_estimator, kernel=gaussian, normalized=True),
    "evaluation.PropensityModel": calls(
        lambda made: tolerant(lambda: made.estimate([rows()] * 8, [0, 1] * 4, [0.0] * 8)), kernel=gaussian
    ),
    "evaluation.Replay": calls(use_estimator),
    "evaluation.SelfNormalizedIPS": calls(use_estimator),
    "evaluation.Switch": calls(use_estimator, model=lambda: kb.evaluation.DirectMethod(gaussian()), threshold=2.0),
    "evaluation.calibration": calls(trace=trace),
    "evaluation.collect_log": calls(
        use_log,
        rounds_in=("horizon",),
        environment=lambda: Clustered(n_actions=3),
        policy=lambda: kb.UniformRandom(seed=0),
        horizon=4,
        seed=0,
    ),
    "evaluation.compare_on_log": calls(
        log=log_of_rows,
        first=lambda: kb.UniformRandom(seed=0),
        second=lambda: kb.UniformRandom(seed=1),
        smallest_propensity=0.2,
        reward_range=lambda: (0.0, 1.0),
    ),
    "evaluation.coverage": calls(
        functions=("make_policy",),
        rounds_in=("horizon", "repeats"),
        environment=lambda: Clustered(n_actions=3),
        make_policy=lambda: _uniform,
        horizon=3,
        repeats=2,
    ),
    "evaluation.kernel_report": calls(
        kernel=gaussian,
        points=lambda: rows(8),
        rewards=lambda: np.linspace(0.0, 1.0, 8),
        times=1,
        regularization=0.5,
        sample=6,
        seed=0,
    ),
    "evaluation.mean_reward": calls(log=log_of_rows),
    "evaluation.share_interval": calls(n_hits=3, n_trials=10),
    "evaluation.simulate": calls(
        functions=("progress",),
        rounds_in=("horizon",),
        environment=lambda: Clustered(n_actions=3),
        policy=lambda: kb.UniformRandom(seed=0),
        horizon=4,
        seed=0,
    ),
    "evaluation.start_world": calls(
        lambda made: tolerant(made.observe), environment=lambda: Clustered(n_actions=3), seed=0
    ),
    "evaluation.true_value": calls(
        rounds_in=("horizon",),
        environment=lambda: Clustered(n_actions=3),
        policy=lambda: kb.UniformRandom(seed=0),
        horizon=4,
        seed=0,
    ),
    # -- adapters
    "adapters.CachedEncoder": calls(
        lambda made: tolerant(lambda: made(WORDS)),
        ("encoder",),
        encoder=lambda: lambda texts: [[len(text)] for text in texts],
    ),
    "adapters.CobaEnvironment": calls(
        use_environment, ("points",), environment=lambda: _coba_interactions(), points=lambda: None
    ),
    "adapters.CobaLearner": calls(
        use_learner, ("points",), policy=lambda: kb.UniformRandom(seed=0), points=lambda: None
    ),
    "adapters.CobaPoints": calls(use_coba_points),
    "adapters.KernelUCBRegressor": calls(use_regressor, ("kernel", "posterior"), kernel="rbf"),
    "adapters.Vocabulary": calls(context=lambda: (("User", "age"),), action=lambda: (("", "price"),)),
    "adapters.from_coba": calls(use_log, ("points",), interactions=lambda: _logged_interactions()),
    "adapters.from_obp": calls(use_log, feedback=lambda: kb.adapters.to_obp(log_of_pairs())),
    "adapters.log_from_frame": calls(
        use_log,
        frame=lambda: {
            "t": [7, 7, 8, 8],
            "item": ["a", "b", "a", "c"],
            "paid": [np.nan, 1.0, 0.5, np.nan],
            "p": [np.nan, 0.25, 0.5, np.nan],
            "x": [0.1, 0.2, 0.3, 0.4],
        },
        round="t",
        action="item",
        reward="paid",
        propensity="p",
        features=lambda: ["x"],
    ),
    "adapters.log_to_frame": calls(log=log_of_rows),
    "adapters.read_adf_text": calls(use_log, path=lambda: _adf_text()),
    "adapters.read_dsjson": calls(use_log, path=lambda: _dsjson(), slots="decisions"),
    "adapters.to_obp": calls(log=log_of_pairs),
    "adapters.trace_to_frame": calls(trace=trace),
    "adapters.write_adf_text": calls(log=log_of_rows, path=lambda: folder() / "written.txt"),
    "adapters.write_dsjson": calls(log=log_of_rows, path=lambda: folder() / "written.json"),
    # -- values
    "types.WithCosts": calls(
        lambda made: use_policy(kb.Paced(kb.KernelUCB(gaussian()), allowance=5.0, price=0.1), made),
        contexts=rows,
        costs=lambda: [0.1, 0.2, 0.0, 9.0],
    ),
    "types.Pairs": calls(
        lambda made: use_policy(kb.KernelUCB(PairProduct(gaussian(), Spectrum(n=2))), made),
        context=lambda: [0.5, 0.1],
        actions=lambda: list(WORDS),
    ),
    "types.Decision.from_dict": calls(
        lambda made: tolerant(lambda: kb.KernelUCB(gaussian()).learn(made, 0.5)),
        values=lambda: kb.Decision(0, rows()[0]).to_dict(),
    ),
}

RESULT = "a result that the library builds; its fields are not arguments of a user"
INSIDE = "a part that the library builds from arguments it has checked"
INTERFACE = "an interface"

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("kernels.Ids", "kernels.Rows", "kernels.Sets", "kernels.Strings"), "has no arguments"),
    **dict.fromkeys(("kernels.Kernel", "kernels.KernelLike", "kernels.PointKind"), INTERFACE),
    **dict.fromkeys(("kernels.RepairReport", "posterior.KernelFit", "posterior.Probabilities"), RESULT),
    **dict.fromkeys(("posterior.Pending", "posterior.Placed"), INSIDE),
    **dict.fromkeys(("posterior.Capabilities", "posterior.Dictionary"), INTERFACE),
    **dict.fromkeys(("posterior.Posterior", "posterior.PosteriorFactory"), INTERFACE),
    **dict.fromkeys(
        ("selection.CatalogEngine", "selection.CatalogView", "selection.GradientSearch", "selection.Screening",
         "selection.screened", "selection.tied_for_best", "selection.tied_in_each"), INSIDE,
    ),
    "selection.compile_ahead": "has no arguments",
    "theory.Check": RESULT,
    "theory.MaximumGain": RESULT,
    "theory.Exploration": INTERFACE,
    **dict.fromkeys(("policies.Selection", "policies.Contribution", "policies.Explanation"), RESULT),
    **dict.fromkeys(("policies.GapWeight", "policies.Policy"), INTERFACE),
    **dict.fromkeys(
        ("policies.KERNEL", "policies.REWARD_RANGE", "policies.SEED", "policies.ValueType", "policies.parameter"),
        "declares a parameter of a class",
    ),
    **dict.fromkeys(("policies.experts.Expert", "policies.experts.PolicyClass"), INTERFACE),
    **dict.fromkeys(
        ("environments.CatalogWorld", "environments.DelayedWorld", "environments.DriftingWorld",
         "environments.LoggedWorld", "environments.SyntheticWorld"), INSIDE,
    ),
    "environments.DrawnRounds": "takes an iterator of the user's, which its rounds come from",
    **dict.fromkeys(
        ("environments.Environment", "environments.JointSpace", "environments.Spherical", "environments.World",
         "evaluation.Estimator", "evaluation.FittedModel", "evaluation.RewardModel"), INTERFACE,
    ),
    **dict.fromkeys(
        ("evaluation.Coverage", "evaluation.Disagreement", "evaluation.Estimate", "evaluation.EstimatedLog",
         "evaluation.KernelReport", "evaluation.Trace"), RESULT
    ),
    "evaluation.NO_STAGE": "a constant",
    "evaluation.Recorder": "has no arguments",
    "policies.experts.GreedyRidge": "made by `taught`, which is called",
    "adapters.VowpalLog": RESULT,
    **dict.fromkeys(("types.Decision", "types.Slate"), "checked where it is learned: see test_odd_decisions.py"),
    **dict.fromkeys(("types.Certificate", "types.Plays", "types.Prediction"), RESULT),
    **dict.fromkeys(("types.SelectionCost", "types.StageStep"), RESULT),
    **dict.fromkeys(
        ("types.Indices", "types.ItemId", "types.Matrix", "types.Parameters", "types.Point",
         "types.Seed", "types.TIE_SLACK", "types.TIE_TOLERANCE", "types.Vector"), "a type or a constant",
    ),
}  # fmt: skip
"""Public names without a valid call here, each with its reason."""


def public_names() -> set[str]:
    """Every public name once, under the first package that exports it."""
    seen: dict[int, str] = {}
    names = set()
    for package in PACKAGES:
        module = import_module(f"kernelbandits.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            known = seen.setdefault(id(value), f"{package}.{name}")
            names.add(known if callable(value) else f"{package}.{name}")
    return names


def callable_of(name: str) -> Callable[..., Any]:
    """The public callable of this name, which may be a class method."""
    package = max((known for known in PACKAGES if name.startswith(f"{known}.")), key=len)
    found: Any = import_module(f"kernelbandits.{package}")
    for part in name[len(package) + 1 :].split("."):
        found = getattr(found, part)
    return found


# -- pieces of the calls -----------------------------------------------------------------------------------------------


def _inner_product(first, second):
    return np.asarray(first) @ np.asarray(second).T


def _scikit_learn_kernel():
    from sklearn.gaussian_process.kernels import RBF

    return RBF()


def _uniform(_repeat):
    return kb.KernelUCB(gaussian())


def _saved_policy():
    path = folder() / "saved.kb"
    if not path.exists():
        kb.KernelUCB(gaussian()).save(path)
    return path


def _news():
    path = folder() / "news.csv"
    path.write_text("class,title,description\nSports,Goal,Late.\nWorld,Vote,Soon.\n" * 6)
    return path


def _adf_text():
    path = folder() / "log.txt"
    path.write_text("shared |User age:3\n|Item color=red\n0:-1.5:0.25 |Item color=blue price:2\n")
    return path


def _dsjson():
    path = folder() / "log.json"
    if not path.exists():
        kb.adapters.write_dsjson(log_of_rows(), path)
    return path


def _coba_interactions():
    return _Interactions()


class _Interactions:
    """What coba calls an environment."""

    params = MappingProxyType({})

    def read(self):
        for t in range(4):
            yield {"context": (0.5, 0.1 * t), "actions": [(1, 0), (0, 1)], "rewards": [0.2, 0.4]}


def _logged_interactions():
    logged = {"actions": [(1, 0), (0, 1)], "action": (1, 0), "reward": 0.2, "probability": 0.5}
    return [{"context": (0.5, 0.1 * t), **logged} for t in range(4)]
