"""The point found in a box is the best of a fine grid of it, for every policy that searches boxes."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ks_2samp

import kernelbandits as kb
from kernelbandits import Decision, kernels
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.kernels import Gaussian, Linear, Matern, PairProduct, PairSum, Polynomial
from kernelbandits.posterior import Pending, posterior_factory
from kernelbandits.selection.box import Box, BoxActions, GradientSearch, Product
from kernelbandits.theory import GPUCBFinite, Mixture

LINE, SQUARE = Box([-1.0], [3.0]), Box([0.0, -40.0], [1.0, 40.0])

KERNELS = {
    "gaussian": Gaussian(length_scale=0.3),
    "matern 1/2": Matern(smoothness=0.5, length_scale=0.5),
    "matern 3/2": Matern(smoothness=1.5, length_scale=0.4),
    "laplacian": kernels.Laplacian(length_scale=0.6),
    "rational quadratic": kernels.RationalQuadratic(length_scale=0.3, mixture=0.7),
    "linear": Linear() + 0.5,
    "polynomial": 0.1 * Polynomial(degree=3),
    "features": kernels.RandomFourier(Gaussian(length_scale=0.4), n_columns=1, n_frequencies=40),
    "sum and product": Gaussian(length_scale=0.2) * Matern(smoothness=2.5, length_scale=2.0) + 0.1 * Linear(),
}

POSTERIORS = ["auto", "exact", "logistic", posterior_factory("windowed", length=12)]


def grid_of(box, n_points):
    axes = [np.linspace(low, high, n_points) for low, high in zip(box.low, box.high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, box.n_columns)


def learned(policy, box, n_rewards, seed=0):
    """The policy after rewards of random points of the box, between 0 and 1."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(box.low, box.high, size=(n_rewards, box.n_columns))
    places = (rows - box.low) / (box.high - box.low)
    policy.warm_start(rows, 0.5 + 0.4 * np.sin(9.0 * places[:, 0]) * np.cos(4.0 * places[:, -1]))
    return policy


def assert_no_grid_point_is_better(policy, box, exploration, *, n_points=2_001, tolerance=1e-9):
    decision = policy.choose(box)
    found = policy.posterior.predict(decision.context[None])
    on_grid = policy.posterior.predict(grid_of(box, n_points)).upper(exploration)

    assert_allclose([decision.mean, decision.width], [found.mean[0], found.width[0]], rtol=1e-7, atol=1e-9)
    assert_allclose(decision.score, decision.mean + exploration * decision.width, rtol=1e-12)
    assert (box.low <= decision.context).all()
    assert (decision.context <= box.high).all()
    spread = on_grid.max() - on_grid.min()
    assert decision.score >= on_grid.max() - tolerance * max(1.0, spread)


@pytest.mark.parametrize("n_rewards", [1, 6, 40])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_no_point_of_a_fine_grid_is_better_on_a_line(kernel, n_rewards):
    for exploration in (0.0, 0.3, 2.0):
        policy = kb.KernelUCB(kernel, regularization=0.02, exploration=exploration)

        assert_no_grid_point_is_better(learned(policy, LINE, n_rewards), LINE, exploration)


@pytest.mark.parametrize("posterior", POSTERIORS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_no_point_of_a_fine_grid_is_better_in_a_square(posterior, seed):
    """The second column is 80 times as wide as the first."""
    kernel = Matern(smoothness=2.5, length_scale=(0.25, 20.0))
    policy = kb.KernelUCB(kernel, regularization=0.05, exploration=0.4, posterior=posterior)

    assert_no_grid_point_is_better(learned(policy, SQUARE, 30, seed), SQUARE, 0.4, n_points=201)


@pytest.mark.parametrize("options", [{"budget": 15}, {"accuracy": 0.1}])
def test_no_point_of_a_fine_grid_is_better_under_an_approximate_model(options):
    policy = kb.KernelUCB(Gaussian(length_scale=0.3), regularization=0.05, exploration=0.4, **options)

    assert_no_grid_point_is_better(learned(policy, LINE, 200), LINE, 0.4)


def test_a_hundred_tried_points_do_not_hide_the_best():
    """A peak a hundredth of the box wide, found before: most starts see nothing of it."""
    policy = kb.KernelUCB(Gaussian(length_scale=0.004), regularization=1e-3, exploration=0.01)
    box = Box([0.0, 0.0], [1.0, 1.0])
    policy.warm_start(np.array([[0.3217, 0.7391]]), [1.0])
    learned(policy, box, 100)

    decision = policy.choose(box)

    assert np.abs(decision.context - [0.3217, 0.7391]).max() < 0.004


@pytest.mark.parametrize("kernel", [Gaussian(length_scale=0.3), Linear() + 0.5], ids=["exact", "primal"])
def test_the_gradient_of_the_score_counts_pending_decisions(kernel):
    box = Box([-1.0, 0.0], [1.0, 2.0])
    policy = learned(kb.KernelUCB(kernel, regularization=0.1, exploration=0.7), box, 12)
    pending = Pending(policy.posterior, np.array([[0.2, 0.3], [-0.5, 1.0]]), np.array([1.0, 3.0]))
    search, actions = GradientSearch(policy.posterior, pending), BoxActions(box, policy.kernel.kind)
    rows = np.random.default_rng(1).uniform(box.low, box.high, size=(5, 2))

    def score(some):
        return pending.narrowed(some, policy.posterior.predict(some)).upper(0.7)

    scores, gradient = search._climb(actions, rows, 0.7)

    steps = [(score(rows + 1e-6 * unit) - score(rows - 1e-6 * unit)) / 2e-6 for unit in np.eye(2)]
    assert_allclose(scores, score(rows), rtol=1e-9)
    assert_allclose(gradient, np.column_stack(steps), rtol=1e-5, atol=1e-7)


def test_pending_decisions_send_the_next_one_elsewhere():
    policy = learned(kb.KernelUCB(Gaussian(length_scale=0.3), regularization=0.05, exploration=1.0), LINE, 8)
    first = policy.choose(LINE)
    policy.expect(first)

    second = policy.choose(LINE)

    waiting = policy.posterior.predict(grid_of(LINE, 2_001), pending=first.context[None])
    assert second.score >= waiting.upper(1.0).max() - 1e-9
    assert abs(second.context[0] - first.context[0]) > 0.05
    policy.withdraw(first)
    assert_allclose(policy.choose(LINE).context, first.context)


POLICIES = {
    "KernelUCB": lambda: kb.KernelUCB(Gaussian(length_scale=0.3), regularization=0.1, exploration=0.4),
    "KernelUCB, random ties": lambda: kb.KernelUCB(Gaussian(length_scale=0.3), ties="random", seed=3),
    "KernelUCB, schedule": lambda: kb.KernelUCB(
        Gaussian(length_scale=0.3), exploration=Mixture(noise_scale=0.1, norm_bound=1.0)
    ),
    "GPUCB": lambda: kb.GPUCB(Matern(smoothness=2.5, length_scale=0.3), noise_variance=0.05),
    "LinUCB": lambda: kb.LinUCB(exploration=0.5),
    "OFUL": lambda: kb.OFUL(noise_scale=0.1, norm_bound=1.0),
    "BKB": lambda: kb.BKB(Gaussian(length_scale=0.3), regularization=0.1, seed=1),
    "KernelThompson": lambda: kb.KernelThompson(Gaussian(length_scale=0.3), regularization=0.1, seed=5, n_features=200),
    "KernelThompson, features": lambda: kb.KernelThompson(Linear(), regularization=0.1, seed=5),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_learns_amends_and_forgets_what_it_chose_in_a_box(name):
    policy = POLICIES[name]()
    decisions = []
    for reward in (0.2, 0.9, 0.4, 0.6):
        decisions.append(policy.choose(SQUARE))
        policy.learn(decisions[-1], reward)
    policy.amend(decisions[1], now=0.1)
    policy.unlearn(decisions[3])

    again = POLICIES[name]()
    again.warm_start(np.array([decision.context for decision in decisions[:3]]), [0.2, 0.1, 0.4])

    for which in (policy, again):
        assert which.posterior.n_observations == 3
    points = grid_of(SQUARE, 5)
    assert_allclose(policy.posterior.predict(points).mean, again.posterior.predict(points).mean, atol=1e-9)
    assert [decision.n_actions for decision in decisions] == [0] * 4
    assert all(np.isnan(decision.propensity) and decision.action == 0 for decision in decisions)
    assert policy.round_index == 4


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_model_and_id_give_the_same_point(name, tmp_path):
    policy = learned(POLICIES[name](), SQUARE, 10)
    policy.save(tmp_path / "policy.kb")

    first = policy.choose(SQUARE, id="one")

    for other in (policy, policy.copy(), kb.load(tmp_path / "policy.kb")):
        other.reseed(9)
        policy.reseed(9)
        assert np.array_equal(other.choose(SQUARE, id="two").context, policy.choose(SQUARE, id="two").context)
    if not name.startswith("KernelThompson"):
        assert np.array_equal(first.context, policy.choose(SQUARE, id="three").context)
    many = policy.choose_many([SQUARE, grid_of(SQUARE, 3), SQUARE])
    assert [decision.n_actions for decision in many] == [0, 9, 0]
    if not name.startswith("KernelThompson"):
        assert_allclose(many[0].context, first.context, atol=1e-9)


@pytest.mark.parametrize("name", POLICIES)
def test_threads_find_the_same_points_as_one_after_the_other(name):
    policy = learned(POLICIES[name](), SQUARE, 10)
    alone = [policy.choose(SQUARE, id=f"decision {n}").context for n in range(8)]

    with ThreadPoolExecutor(4) as pool:
        together = [*pool.map(lambda n: policy.choose(SQUARE, id=f"decision {n}").context, range(8))]

    assert np.array_equal(together, alone)


@pytest.mark.parametrize("name", POLICIES)
def test_a_decision_in_a_box_survives_json_and_can_be_explained(name):
    policy = learned(POLICIES[name](), SQUARE, 10)
    decision = policy.choose(SQUARE)

    read = Decision.from_dict(json.loads(json.dumps(decision.to_dict(), allow_nan=False)))
    policy.expect(read)
    policy.learn(read, 0.5)

    assert np.isnan(read.propensity)
    assert np.array_equal(read.context, decision.context)
    assert policy.explain(read).mean == pytest.approx(policy.posterior.predict(decision.context[None]).mean[0])


def test_only_a_decision_in_a_box_has_no_propensity():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))
    values = {**policy.choose([[0.0], [1.0]]).to_dict(), "propensity": None}

    with pytest.raises(kb.errors.DecisionError, match="or nan for a point of a box"):
        Decision.from_dict(values)


def test_before_any_reward_the_center_is_chosen():
    assert np.array_equal(kb.KernelUCB(Gaussian(length_scale=0.1)).choose(SQUARE).context, [0.5, 0.0])


def test_random_ties_choose_different_points_before_any_reward():
    policy = kb.KernelUCB(Gaussian(length_scale=0.1), ties="random", seed=0)

    assert len({policy.choose(SQUARE).context.tobytes() for _ in range(20)}) > 2


def test_a_fixed_column_keeps_its_value():
    policy = learned(kb.KernelUCB(Gaussian(length_scale=0.3), exploration=0.3), SQUARE, 10)

    chosen = policy.choose(Box([0.25, -1.0], [0.25, 1.0]))

    assert chosen.context[0] == 0.25
    assert np.array_equal(policy.choose(Box([0.1, 3.0], [0.1, 3.0])).context, [0.1, 3.0])


# -- products ----------------------------------------------------------------------------------------------------------

PAIR_KERNELS = {
    "product": PairProduct(Gaussian(length_scale=0.8), Gaussian(length_scale=0.3)),
    "sum": PairSum(Linear(), Matern(smoothness=2.5, length_scale=0.3)),
    "contexts without gradients": PairProduct(kernels.Spectrum(n=2), Gaussian(length_scale=0.3)),
}


@pytest.mark.parametrize("name", PAIR_KERNELS)
def test_no_action_of_a_fine_grid_is_better_beside_a_context(name):
    contexts = ["abab", "bcbc", "abbc"] if "without" in name else [[0.1, 0.4], [2.0, -0.3], [0.7, 0.1]]
    policy = kb.KernelUCB(PAIR_KERNELS[name], regularization=0.05, exploration=0.5)
    rng = np.random.default_rng(2)
    for turn in range(12):
        decision = policy.choose(Product(contexts[turn % 3], LINE))
        policy.learn(decision, float(rng.uniform()))

    decision = policy.choose(Product(contexts[1], LINE))

    pairs = kb.Pairs(contexts[1], grid_of(LINE, 2_001))
    assert decision.score >= policy.posterior.predict(pairs).upper(0.5).max() - 1e-9
    assert np.array_equal(decision.context.context, contexts[1])


def test_a_context_before_a_box_is_the_row_that_joins_both():
    policy = learned(kb.KernelUCB(Gaussian(length_scale=0.4), exploration=0.4), Box([0.0, 0.0], [1.0, 1.0]), 15)

    joined = policy.choose(Product([0.3], Box([0.0], [1.0])))

    fixed = policy.choose(Box([0.3, 0.0], [0.3, 1.0]))
    assert_allclose(joined.context, fixed.context, atol=1e-6)
    assert_allclose(joined.score, fixed.score, rtol=1e-9)


def test_cgpucb_learns_which_action_suits_which_context():
    policy = kb.CGPUCB(
        context_kernel=Gaussian(length_scale=0.5), action_kernel=Gaussian(length_scale=0.3), noise_variance=1e-3
    )
    rng = np.random.default_rng(0)
    for _ in range(60):
        context = rng.uniform(size=1)
        decision = policy.choose(Product(context, Box([0.0], [1.0])))
        policy.learn(decision, -float((decision.context.actions[0] - context[0]) ** 2))

    for context in (0.2, 0.5, 0.8):
        chosen = policy.choose(Product([context], Box([0.0], [1.0])))
        assert chosen.context.actions[0] == pytest.approx(context, abs=0.1)


# -- Thompson sampling -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel", [Gaussian(length_scale=0.3), KERNELS["features"]], ids=["random features", "features"]
)
def test_thompson_sampling_draws_the_maximum_of_a_posterior_function(kernel):
    """Its points are distributed like the best of a fine grid under joint draws."""
    policy = learned(kb.KernelThompson(kernel, regularization=0.05, exploration=0.3, seed=0), LINE, 6)
    grid = grid_of(LINE, 201)

    found = [policy.choose(LINE).context[0] for _ in range(150)]

    drawn = grid[policy.draw(grid, 2_000, seed=1).argmax(axis=1), 0]
    assert len(set(found)) > 100
    assert ks_2samp(found, drawn).pvalue > 1e-3
    assert ks_2samp(np.array(found) + 0.5, drawn).pvalue < 1e-3  # a shift of an eighth of the box would be seen


@pytest.mark.parametrize("kernel", [2.0 * Gaussian(length_scale=0.4), KERNELS["features"]])
def test_the_gradient_of_a_drawn_function_counts_pending_decisions(kernel):
    policy = learned(kb.KernelThompson(kernel, regularization=0.05, seed=0, n_features=60), LINE, 6)
    policy.expect(policy.choose(LINE))
    rows = np.random.default_rng(1).uniform(-1.0, 3.0, size=(5, 1))

    paths = policy._paths(rows, 0, 1, np.random.default_rng(3))

    slopes = (paths.at(rows + 1e-6) - paths.at(rows - 1e-6))[0] / 2e-6
    assert_allclose(paths.gradient(rows)[:, 0], slopes, rtol=1e-5, atol=1e-6)


def test_thompson_sampling_draws_around_pending_decisions():
    policy = learned(kb.KernelThompson(Gaussian(length_scale=0.3), regularization=0.05, seed=0), LINE, 6)
    policy.expect(policy.choose(LINE))

    decision = policy.choose(LINE, id="next")

    waiting = policy.posterior.predict(
        decision.context[None], pending=next(iter(policy.pending.values())).context[None]
    )
    assert decision.width == pytest.approx(waiting.width[0])


@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        ({"draws": "joint"}, Gaussian(length_scale=1.0)),
        ({"budget": 20}, Gaussian(length_scale=1.0)),
        ({"posterior": "logistic"}, Gaussian(length_scale=1.0)),
        ({}, Gaussian(length_scale=1.0) * Linear()),
    ],
)
def test_thompson_sampling_says_what_a_drawn_function_needs(options, kernel):
    policy = kb.KernelThompson(kernel, seed=0, **options)

    with pytest.raises(NotSupported, match=r"maximum of a drawn function, which needs .* KernelUCB"):
        policy.choose(LINE)


# -- what a box cannot be used for -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda policy: policy.probabilities(LINE),
        lambda policy: policy.probabilities_many([[[0.0]], LINE]),
        lambda policy: policy.slate_probabilities(LINE, [0]),
        lambda policy: policy.place_probabilities(LINE, 1),
    ],
)
def test_a_point_of_a_box_has_no_probability(ask):
    with pytest.raises(NotSupported, match="at most a density, and no probability"):
        ask(kb.KernelUCB(Gaussian(length_scale=1.0)))


def test_a_box_has_no_slate_and_cannot_be_played():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))

    with pytest.raises(NotSupported, match=r"no k best points.*expect\(decision\)"):
        policy.choose(LINE, k=2)
    with pytest.raises(NotSupported, match="Loop over choose and learn"):
        policy.play([LINE], [[1.0]])
    with pytest.raises(InvalidParameter, match="no ids and are all eligible"):
        policy.choose(LINE, ids=["a"])


@pytest.mark.parametrize(
    "policy",
    [
        kb.Mixed(kb.KernelUCB(Gaussian(length_scale=1.0)), epsilon=0.1),
        kb.Softmax(kb.KernelUCB(Gaussian(length_scale=1.0)), temperature=0.1),
        kb.Guarded(kb.KernelUCB(Gaussian(length_scale=1.0)), baseline=0),
        kb.UniformRandom(),
        kb.UCB1(),
        kb.KernelSquareCB(Gaussian(length_scale=1.0)),
        kb.MiniBatchGPUCB(Gaussian(length_scale=1.0), noise_variance=0.1),
        kb.SupKernelUCB(Gaussian(length_scale=1.0), horizon=10, n_actions=2),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_other_policies_say_which_ones_search_a_box(policy):
    with pytest.raises(NotSupported, match=r"actions that can be listed, got a Box\. KernelUCB.* search a box"):
        policy.choose(LINE)


@pytest.mark.parametrize(
    ("kernel", "actions", "message"),
    [
        (kernels.Spectrum(n=2), LINE, r"A box holds rows of numbers.* compares Strings"),
        (PairProduct(Linear(), Linear()), LINE, r"a box has no context: kb\.Product\(context, box\)"),
        (PairProduct(Linear(), kernels.Delta()), Product([1.0], LINE), "A box holds rows of numbers"),
    ],
)
def test_a_box_of_another_kind_is_rejected(kernel, actions, message):
    with pytest.raises(InvalidContexts, match=message):
        kb.KernelUCB(kernel).choose(actions)


def test_a_kernel_without_gradients_is_rejected_and_nothing_changes():
    policy = kb.KernelUCB(kernels.FromCallable(lambda first, second: np.minimum(first, second.T) + 2.0))

    with pytest.raises(NotSupported, match=r"can be differentiated.*kb\.Catalog"):
        policy.choose(LINE)
    assert policy.choose([[0.0], [1.0]]).action == 1


def test_a_box_with_another_number_of_columns_is_rejected():
    policy = learned(kb.KernelUCB(Gaussian(length_scale=1.0)), LINE, 3)

    with pytest.raises(InvalidContexts, match="columns"):
        policy.choose(SQUARE)
    assert policy.choose(LINE).n_actions == 0


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([0.0], [1.0, 2.0], "one number for each of its columns, got 1 and 2"),
        ([1.0, 0.0], [2.0, -0.5], r"must not lie above the upper one.* got 0.0 and -0.5 in column 1"),
        ([-1e308], [1e308], "sides must be finite"),
        ([], [], "1 to 1,000 numbers, got 0"),
        ([np.nan], [1.0], "lower corner of a box"),
        ("a", [1.0], "lower corner of a box"),
    ],
)
def test_corners_that_are_no_box_are_rejected(low, high, message):
    with pytest.raises(InvalidParameter, match=message):
        Box(low, high)


def test_a_product_needs_a_box():
    with pytest.raises(InvalidParameter, match=r"kb\.Product\(context, kb\.Box\(low, high\)\).*kb\.Pairs"):
        Product([1.0], [[0.0], [1.0]])


def test_a_schedule_for_finitely_many_actions_warns_beside_a_box():
    policy = kb.GPUCB(Gaussian(length_scale=0.3), noise_variance=0.1, exploration=GPUCBFinite(failure_probability=0.1))

    with pytest.warns(kb.errors.GuaranteeVoid, match="finitely many actions, and these are a box"):
        policy.choose(LINE)


def test_a_log_of_decisions_in_boxes_is_rejected():
    policy = kb.KernelUCB(Gaussian(length_scale=0.3))
    decision = policy.choose(LINE)

    with pytest.raises(InvalidParameter, match="box"):
        kb.environments.Log([LINE], [0], [1.0], [0.5])
    with pytest.raises(InvalidParameter, match="box"):
        kb.environments.Log([[decision.context]], [decision.action], [decision.propensity], [0.5])
