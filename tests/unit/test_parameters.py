import copy
import inspect
import pickle
from operator import attrgetter

import numpy as np
import pytest

import kernelbandits as kb
from golden.policies import CASES
from golden.worlds import World
from kernelbandits._parameters import Parameter, Parametrized, ValueType, did_you_mean, one_of, parameter
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import UniformRandom
from kernelbandits.policies.experts import constant_experts
from kernelbandits.posterior import posterior_factory
from kernelbandits.theory import Constant, GPUCBFinite, Mixture

KERNEL = Gaussian(length_scale=0.7)
ROWS = np.random.default_rng(0).normal(size=(5, 3))


class Shape(Parametrized):
    """A model of two numbers."""

    width: float = parameter(float, kw_only=False)
    height: "float | None" = parameter(float, default=None)
    color: str = parameter(one_of("red", "blue", message="A color is 'red' or 'blue'"), default="red")

    def _setup(self):
        if self.height is None:
            self._resolve(height=2 * self.width)
        self.area = self.width * self.height


class Solid(Shape):
    """Inherits three parameters, with another default for one of them."""

    depth: "Parameter[str | int, int]" = parameter(ValueType(int, str), attribute="_far", default=3)
    color: str = parameter(str, default="green")
    tint: int = parameter(int, default=0, is_described=False, is_public=False)


def test_a_declaration_makes_the_constructor():
    shape = Shape(2, color="blue")

    assert (shape.width, shape.height, shape.color, shape.area) == (2.0, 4.0, "blue", 8.0)
    assert [str(one) for one in inspect.signature(Shape).parameters] == ["width", "height", "color"]
    kinds = [one.kind for one in inspect.signature(Shape).parameters.values()]
    assert kinds == [inspect.Parameter.POSITIONAL_OR_KEYWORD, *[inspect.Parameter.KEYWORD_ONLY] * 2]


def test_own_parameters_come_before_inherited_ones_and_undescribed_ones_last():
    assert list(inspect.signature(Solid).parameters) == ["width", "depth", "height", "color", "tint"]
    assert inspect.signature(Solid).parameters["color"].default == "green"
    assert inspect.signature(Solid).parameters["depth"].annotation == "str | int"


def test_a_class_with_a_constructor_of_its_own_has_that_signature():
    class Square(Shape):
        def __init__(self, side):
            super().__init__(side, height=side)

    assert list(inspect.signature(Square).parameters) == ["side"]
    assert Square(3).area == 9.0


def test_reading_a_parameter_calls_no_python_function():
    for policy_class in (kb.KernelUCB, kb.EXP4, kb.Mixed):
        for name, declared in policy_class._declared.items():
            if declared.is_public:
                assert isinstance(getattr(policy_class, name).fget, attrgetter)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Shape(), "Shape needs the parameter 'width': width=…"),
        (lambda: Shape(1, 2), "takes 'width' by position, got 2 positional arguments"),
        (lambda: Shape(1, width=1), "'width' twice"),
        (lambda: Shape(1, hight=2), "no parameter 'hight'. Did you mean 'height'"),
        (lambda: Shape(1, xyz=2), "no parameter 'xyz'. There are: color, height, width"),
        (lambda: Shape(1, color="green"), "A color is 'red' or 'blue', got 'green'"),
        (lambda: kb.LinUCB(1.0), "LinUCB takes parameters by name only, got 1 positional"),
        (lambda: kb.KernelUCB(KERNEL, regularisation=1.0), "'regularization'"),
        (lambda: kb.KernelUCB(KERNEL, random_state=1), "Did you mean 'seed'"),
        (lambda: kb.UCB1(exploration_factor=1.0), "Did you mean 'exploration'"),
        (lambda: kb.EXP4([], horizon=5, exploration_factor=1.0), "Did you mean 'uniform_factor'"),
        (lambda: kb.ConfidenceBall(ROWS, beta_factor=1.0), "Did you mean 'exploration'"),
        (lambda: kb.PolicyElimination([], n_actions=2, confidence_factor=1.0), "Did you mean 'exploration'"),
        (lambda: kb.SupKernelUCB(KERNEL, scale=1.0), "Did you mean 'exploration'"),
        (lambda: kb.PhasedElimination(KERNEL, ROWS, scale=1.0), "Did you mean 'exploration'"),
        (lambda: kb.OFUL(noise_scale=0.5), "OFUL needs the parameter 'norm_bound'"),
    ],
)
def test_wrong_arguments_are_answered_with_the_right_word(make, words):
    with pytest.raises(InvalidParameter) as raised:
        make()

    assert words in str(raised.value)


def test_a_name_that_is_close_to_none_is_answered_with_all():
    assert did_you_mean("q", ["b", "a"]) == " There are: a, b."
    assert did_you_mean("q", []) == " There are: none."


def test_parameters_cannot_be_assigned_unless_declared_so():
    policy = kb.KernelUCB(KERNEL)

    with pytest.raises(AttributeError):
        policy.regularization = 2.0
    policy.exploration = 0.3

    assert policy.get_params()["exploration"] == policy.exploration == Constant(0.3)


def test_an_attribute_that_hides_a_method_is_rejected():
    with pytest.raises(TypeError, match="has a method _pick"):

        class Bad(UniformRandom):
            pick: int = parameter(int)


@pytest.mark.parametrize(
    ("name", "message"),
    [("_points", "has a method _points: give the attribute another name"), ("_rewards", "no _rewards of its base")],
)
def test_attributes_of_a_model_do_not_replace_those_of_its_base_class(name, message):
    class Mine(UniformRandom):
        name = parameter(str)

        def _setup(self):
            super()._setup()
            setattr(self, self.name, [])

    with pytest.raises(TypeError, match=message):
        Mine(name=name)
    assert Mine(name="_paid").choose([[1.0]]).action == 0


def test_a_model_that_does_not_set_up_its_base_class_is_rejected():
    class Mine(UniformRandom):
        def _setup(self):
            self._paid = []

    with pytest.raises(TypeError, match=r"call super\(\)\._setup\(\) first"):
        Mine()


def test_what_was_given_as_none_stays_none_and_the_attribute_shows_what_is_used():
    shape = Shape(2)

    assert shape.get_params() == {"width": 2.0, "height": None, "color": "red"}
    assert shape._description() == {"width": 2.0, "height": 4.0, "color": "red"}
    assert shape.clone(width=5).height == 10.0
    policy = kb.GPUCB(KERNEL, noise_variance=0.1)
    assert policy.exploration == GPUCBFinite(failure_probability=0.05, divide_by=20.0)
    assert policy.set_params(failure_probability=0.2).exploration == GPUCBFinite(
        failure_probability=0.2, divide_by=20.0
    )
    policy.exploration = 0.5
    assert policy.get_params()["exploration"] == Constant(0.5)
    assert policy.set_params(exploration=None).exploration == GPUCBFinite(failure_probability=0.2, divide_by=20.0)
    with pytest.raises(InvalidParameter, match="exploration"):
        policy.exploration = None


def test_the_description_is_that_of_the_value_type():
    solid = Solid(1, depth="7")

    assert (solid._far, solid.depth, solid._description()["depth"]) == (7, 7, "7")
    assert "tint" not in solid._description()
    assert not hasattr(solid, "tint")
    assert solid.get_params()["tint"] == 0


def test_a_representation_shows_what_is_not_the_default():
    assert repr(Shape(1)) == "Shape(width=1.0)"
    assert repr(Shape(1, height=3, color="blue")) == "Shape(width=1.0, height=3.0, color='blue')"
    policy = kb.Mixed(kb.KernelUCB(KERNEL, exploration=1.0, posterior="exact"), epsilon=0.1)
    shown = "KernelUCB(kernel=Gaussian(length_scale=0.7), posterior=NamedPosterior(name='exact', options={}))"
    assert repr(policy) == f"Mixed(policy={shown}, epsilon=0.1)"
    assert "\n" not in repr(kb.PEGE(ROWS))


def test_a_clone_has_the_same_seed_and_shares_no_generator():
    generator = np.random.default_rng(5)
    policy = kb.KernelUCB(KERNEL, ties="random", seed=generator)
    clone = policy.clone()

    contexts = np.zeros((50, 3))
    assert clone.seed is not generator
    assert [clone.choose(contexts).action for _ in range(5)] == [policy.choose(contexts).action for _ in range(5)]
    assert kb.UniformRandom(seed=3).clone().seed == 3


def test_a_clone_of_a_wrapper_wraps_a_clone():
    policy = kb.Mixed(kb.KernelUCB(KERNEL), epsilon=0.1, seed=0)
    policy.learn(policy.choose(ROWS), 0.5)
    clone = policy.clone(epsilon=0.2)

    assert clone.policy is not policy.policy
    assert (clone.epsilon, clone.round_index, clone.policy.posterior.size) == (0.2, 1, 0)
    assert clone.clone(policy=kb.LinUCB()).describe()["policy"]["class"] == "LinUCB"


def test_copies_and_pickles_keep_the_parameters():
    policy = kb.GPUCB(KERNEL, noise_variance=0.3, seed=1)

    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert other.describe() == policy.describe()
        assert other.get_params()["exploration"] is None


def test_a_change_that_does_not_fit_the_other_parameters_changes_nothing():
    policy = kb.LinUCB(regularization=0.4, seed=0)
    before, fingerprint = policy.describe(), policy.fingerprint

    with pytest.raises(InvalidParameter, match="hybrid"):
        policy.set_params(regularization=0.7, model="hybrid")

    assert (policy.describe(), policy.fingerprint) == (before, fingerprint)
    assert policy.posterior.regularization == 0.4
    decision = policy.choose(ROWS)
    assert policy.set_params(regularization=0.7).posterior.regularization == 0.7
    assert policy.fingerprint != fingerprint
    with pytest.raises(kb.errors.ForeignDecision):
        policy.learn(decision, 0.5)


def test_history_counts_as_learned_also_in_a_file(tmp_path):
    policy = kb.KernelUCB(KERNEL)
    policy.warm_start(ROWS, np.arange(5.0))

    with pytest.raises(NotSupported, match="clone"):
        policy.set_params(regularization=2.0)
    policy.save(tmp_path / "policy.kb")
    opened = kb.load(tmp_path / "policy.kb")
    with pytest.raises(NotSupported, match="clone"):
        opened.set_params(regularization=2.0)
    assert opened.set_params(exploration=0.1).exploration == Constant(0.1)
    assert opened.clone(regularization=2.0).posterior.size == 0


def test_a_rejected_history_does_not_count(tmp_path):
    policy = kb.KernelUCB(KERNEL)
    with pytest.raises(kb.errors.KernelBanditError):
        policy.warm_start(ROWS, np.arange(5.0), times=-1)

    assert policy.set_params(regularization=2.0).regularization == 2.0


def test_a_file_that_does_not_name_a_parameter_has_its_default(monkeypatch, tmp_path):
    """Negative control of the contract: a parameter that a description leaves out follows the default."""
    declared = kb.LinUCB._declared["regularization"]
    policy = kb.LinUCB(regularization=1.0)
    monkeypatch.setattr(declared, "is_described", False)
    policy.save(tmp_path / "incomplete.kb")
    monkeypatch.setattr(declared, "is_described", True)
    policy.save(tmp_path / "complete.kb")

    monkeypatch.setattr(declared, "default", 0.3)

    assert kb.load(tmp_path / "incomplete.kb").regularization == 0.3
    assert kb.load(tmp_path / "complete.kb").regularization == 1.0


def test_a_file_that_does_not_name_the_constant_of_a_theorem_has_that_constant(monkeypatch, tmp_path):
    """The default may be a practical one; a file without the parameter is older than it."""
    declared = kb.PolicyElimination._declared["uniform_factor"]
    policy = kb.PolicyElimination(constant_experts(2), n_actions=2, uniform_factor="theory", seed=0)
    monkeypatch.setattr(declared, "is_described", False)
    decision = policy.choose([[0.0], [1.0]])
    policy.save(tmp_path / "older.kb")
    monkeypatch.setattr(declared, "is_described", True)

    loaded = kb.load(tmp_path / "older.kb")

    assert loaded.uniform_factor == 1.0 != kb.PolicyElimination(constant_experts(2), n_actions=2).uniform_factor
    loaded.learn(decision, 1.0)  # a decision of before is still its own


def theory_parameters():
    """Every parameter of an exported policy that knows the constant of a theorem, with a policy that has it."""
    policies = (make(World(world), 0) for world, make in CASES.values())
    for made, policy in {type(policy): policy for policy in policies}.items():
        for name, declared in made._declared.items():
            if declared.theory is not None:
                yield pytest.param(policy, name, id=f"{made.__name__}.{name}")


@pytest.mark.parametrize(("policy", "name"), list(theory_parameters()))
def test_theory_is_a_value_of_every_parameter_whose_theorem_has_a_constant(policy, name):
    declared = type(policy)._declared[name]
    others = {"norm_bound": 1.0} if declared.theory == "theory" and hasattr(policy, "norm_bound") else {}

    made = policy.clone(**{name: "theory"}, **others)

    assert getattr(made, name) == declared.theory
    assert made.describe()[name] == declared.theory
    assert made.clone().describe() == made.describe()
    with pytest.raises(InvalidParameter, match=f"{name!r} is a number, or 'theory', got 'practice'"):
        policy.clone(**{name: "practice"})


def test_descriptions_are_nested():
    policy = kb.KernelUCB(
        KERNEL,
        posterior=posterior_factory("windowed", length=9),
        exploration=Mixture(noise_scale=0.5, norm_bound=1.0),
    )

    described = kb.Mixed(policy, epsilon=0.1).describe()

    assert described["policy"]["kernel"] == KERNEL.describe()
    assert described["policy"]["posterior"] == {"name": "windowed", "length": 9}
    assert described["policy"]["exploration"]["failure_probability"] == 0.05


class TestFoundByUsers:
    """Mistakes that were made once, each with what has to happen instead."""

    KERNEL = kb.kernels.Gaussian(length_scale=0.4)
    ROUND = np.random.default_rng(0).uniform(size=(6, 2))

    @pytest.mark.parametrize(
        ("policy", "changes", "name", "expected"),
        [
            (kb.GPUCB(KERNEL, noise_variance=0.1), {"failure_probability": 0.01}, "exploration", None),
            (kb.KernelThompson(KERNEL, regularization=0.1), {"regularization": 4.0}, "exploration", None),
            (
                kb.SupKernelUCB(KERNEL, regularization=0.1, norm_bound=1.0, exploration="theory"),
                {"reward_range": (0.0, 10.0)},
                "noise_scale",
                5.0,
            ),
        ],
    )
    def test_what_was_given_as_none_is_none_after_loading(self, policy, changes, name, expected, tmp_path):
        policy.save(tmp_path / "policy.kb")
        loaded = kb.load(tmp_path / "policy.kb")

        assert loaded.get_params()[name] is None
        assert getattr(loaded.clone(**changes), name) == getattr(policy.clone(**changes), name)
        assert expected is None or loaded.clone(**changes).noise_scale == expected
        assert loaded.describe() == policy.describe()

    def test_a_decision_from_before_set_params_is_foreign_also_after_an_assignment(self):
        policy = kb.KernelUCB(self.KERNEL)
        decision = policy.choose(self.ROUND)
        policy.exploration = 0.2
        policy.fingerprint  # noqa: B018 – remembers the fingerprint before the assignment

        policy.set_params(regularization=5.0)

        with pytest.raises(kb.errors.ForeignDecision):
            policy.learn(decision, 1.0)

    def test_a_wrapper_keeps_its_policy(self):
        inner = kb.KernelUCB(self.KERNEL)
        inner.warm_start(self.ROUND, np.ones(6))
        policy = kb.Mixed(inner, epsilon=0.1)

        with pytest.raises(kb.errors.NotSupported, match="keeps the policy that it wraps"):
            policy.set_params(policy=kb.LinUCB())
        with pytest.raises(kb.errors.NotSupported, match="only while nothing was learned"):
            policy.set_params(epsilon=0.3)
        assert kb.Mixed(kb.KernelUCB(self.KERNEL), epsilon=0.1).set_params(epsilon=0.3).epsilon == 0.3

    def test_a_wrapper_that_is_rejected_leaves_the_policy_as_it_was(self):
        policy = kb.EXP4(kb.policies.experts.constant_experts(3), horizon=10)

        with pytest.raises(kb.errors.NotSupported):
            kb.Mixed(policy, epsilon=0.1)

        assert policy.set_params(horizon=20).horizon == 20

    @pytest.mark.parametrize("name", ["rewards", "random", "ledger", "journal", "choose", "learn"])
    def test_a_parameter_cannot_take_a_name_that_policies_use(self, name):
        with pytest.raises(TypeError, match=f"cannot have a parameter '{name}'"):
            type("Own", (kb.UniformRandom,), {name: kb.policies.parameter(int, default=1)})

    def test_a_plain_attribute_cannot_hide_a_parameter(self):
        with pytest.raises(TypeError, match="hides a parameter"):
            type("Own", (kb.Mixed,), {"epsilon": 0.7})

    def test_an_assignment_says_what_to_do_instead(self):
        with pytest.raises(AttributeError, match=r"KernelUCB.regularization cannot be assigned.*clone\(regularization"):
            kb.KernelUCB(self.KERNEL).regularization = 2.0

    def test_a_check_such_as_float_is_an_error_of_the_library(self):
        class Own(kb.UniformRandom):
            share = kb.policies.parameter(float, default=0.5)

        with pytest.raises(InvalidParameter, match="The parameter 'share' got 'x': could not convert"):
            Own(share="x")

    def test_a_value_that_is_not_plain_says_how_to_describe_it(self):
        class Own(kb.UniformRandom):
            weights = kb.policies.parameter(np.asarray)

        with pytest.raises(InvalidParameter, match=r"described by plain values.*ValueType\(check, describe"):
            Own(weights=[1.0]).choose(self.ROUND)
