import numpy as np
import pytest

from kernelbandits.environments import Clustered, Drifting, SyntheticRKHS
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.policy_spec import Grid, PolicySpec, build_value, expand_grids
from kernelbandits.experiments.study import Study
from kernelbandits.kernels import Gaussian, Spectrum, TfIdf
from kernelbandits.policies import KernelThompson, KernelUCB, Mixed
from kernelbandits.theory import Mixture

STUDY = """
name = "bump"
horizon = 20
seeds = 2
every = 10

[environments.groups]
class = "Clustered"
n_actions = 6
values = [0.1, 0.8]

[environments.drift]
class = "Drifting"
change_at = 5
before = { class = "SyntheticRKHS", kernel = { class = "Gaussian", length_scale = 0.2 }, n_actions = 3, n_features = 1 }
after = { class = "Clustered", n_actions = 3 }

[policies.KernelUCB]
class = "KernelUCB"
kernel = { class = "Gaussian" }
exploration = { class = "Mixture", noise_scale = 0.1, norm_bound = 1.0, failure_probability = 0.1 }
reward_range = [-9, 9]
grid = { regularization = [1, 10], "kernel.length_scale" = [0.05, 0.1] }
learn_rounds = 15

[policies.Mixed]
class = "Mixed"
epsilon = 0.1
policy = { class = "KernelThompson", kernel = { class = "Gaussian", length_scale = 0.1 } }
"""


def written(folder, text):
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_what_python_says(tmp_path):
    width = Mixture(noise_scale=0.1, norm_bound=1.0, failure_probability=0.1)
    kernel = {"class": "Gaussian", "length_scale": Grid(0.05, 0.1)}
    ours = Study(
        name="bump",
        horizon=20,
        seeds=[0, 1],
        every=10,
        environments={
            "groups": Clustered(n_actions=6, values=(0.1, 0.8)),
            "drift": Drifting(
                SyntheticRKHS(Gaussian(length_scale=0.2), n_actions=3, n_features=1),
                Clustered(n_actions=3),
                change_at=5,
            ),
        },
        policies={
            "KernelUCB": PolicySpec(
                KernelUCB,
                kernel,
                exploration=width,
                reward_range=(-9, 9),
                regularization=Grid(1, 10),
                learn_rounds=15,
            ),
            "Mixed": PolicySpec(Mixed, PolicySpec(KernelThompson, Gaussian(length_scale=0.1)), epsilon=0.1),
        },
    )

    read = Study.from_toml(written(tmp_path, STUDY))

    assert read.describe() == ours.describe()
    assert [job.id for job in read.jobs] == [job.id for job in ours.jobs]
    assert read.variants[0].label == "KernelUCB, kernel.length_scale=0.05, regularization=1"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('class = "Clustered"\nn', 'class = "Clusterd"\nn', r"study\.toml: environments\.groups: no environment class"),
        ("n_actions = 6", "n_action = 6", r"environments\.groups: Clustered takes no 'n_action'. Did you mean 'n_act"),
        ("change_at = 5", "change_at = -5", r"environments\.drift: The round of the change"),
        (
            'class = "KernelUCB"',
            'class = "KernelUBC"',
            r"policies\.KernelUCB: no policy class.*Did you mean 'KernelUCB",
        ),
        (
            'class = "KernelUCB"',
            "",
            r"policies\.KernelUCB: the name of a policy class is missing: class = .*GPUCB",
        ),
        ('"kernel.length_scale"', '"kernl.length_scale"', r"grid\.kernl\.length_scale: there is no table 'kernl'"),
        ('"kernel.length_scale"', '"kernel.length_scal"', r"\.kernel: Gaussian takes no 'length_scal'"),
        (
            'kernel = { class = "Gaussian" }',
            'kernel = { class = "Gaussian", length_scale = 0.3 }',
            r"grid\.kernel\.length_scale: 'length_scale' has the value 0\.3 already, which the grid would replace",
        ),
        ("reward_range = [-9, 9]", "regularization = 2", r"'regularization' has the value 2 already"),
        (
            '"kernel.length_scale" = [0.05, 0.1]',
            "kernel.length_scale = [0.05, 0.1]",
            r'grid\.kernel: .* in quotes: "kernel\.length_scale" = \[0\.1, 1\.0\]',
        ),
        (
            'kernel = { class = "Gaussian" }',
            'kernel = "Gaussian"',
            r'policies\.KernelUCB\.kernel: this must be a table, such as \{ class = "Gaussian", length_scale = 0\.2 \}',
        ),
        ("[0.05, 0.1]", "0.05", r"grid\.kernel\.length_scale: a grid is a list"),
        ("[0.05, 0.1]", "[]", r"grid\.kernel\.length_scale: a grid is a list of values, at least one"),
        ("[0.05, 0.1]", "[0.1, 0.1]", r"study\.toml: Two policies would be called 'KernelUCB, kernel\.len"),
        ("epsilon = 0.1", "epsilon = 2.0", r"study\.toml: policies\.Mixed: Epsilon is a probability"),
        ("epsilon = 0.1", "epsilon = 0.1\nseed = 3", r"policies\.Mixed: Mixed is seeded by the run"),
        ("horizon = 20", "horizon = 20\nrounds = 3", r"study\.toml: a study has no 'rounds'"),
        ("horizon = 20", "", r"the study has no 'horizon'"),
        ("horizon = 20", 'horizon = "x"', r"study\.toml: The horizon must be"),
        ("horizon = 20", "horizon = = 20", r"is not TOML"),
        ("seeds = 2", "seeds = [1, 1]", "each only once"),
        ("[policies.KernelUCB]", "[policies]\nx = 3\n[policies.KernelUCB]", r"policies\.x: this must be a table"),
    ],
)
def test_a_mistake_is_named_with_file_and_place(tmp_path, before, after, message):
    assert before in STUDY
    path = written(tmp_path, STUDY.replace(before, after, 1))

    with pytest.raises(InvalidParameter, match=message):
        Study.from_toml(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidParameter, match=r"none\.toml' cannot be read"):
        Study.from_toml(tmp_path / "none.toml")


LOADED = """
name = "data"
horizon = 5
seeds = 1
[environments.plain]
load = "groups"
path = "${STUDY_DATA}/sub/file.csv"
n_actions = 3
[environments.wrapped]
class = "Drifting"
change_at = 2
before = { load = "groups", path = "near.csv", n_actions = 4 }
after = { class = "Clustered", n_actions = 4 }
[policies.Random]
class = "UniformRandom"
"""


def test_data_is_loaded_by_name_with_paths_filled_in(tmp_path, monkeypatch):
    monkeypatch.setenv("STUDY_DATA", "/somewhere")
    paths = []

    def load(path, *, n_actions):
        paths.append(str(path))
        return Clustered(n_actions=n_actions)

    study = Study.from_toml(written(tmp_path, LOADED), loaders={"groups": load})

    assert paths == ["/somewhere/sub/file.csv", str(tmp_path / "near.csv")]
    assert study.environments["plain"].n_actions == 3
    assert study.environments["wrapped"].before.n_actions == 4


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('load = "groups"', 'load = "group"', r"environments\.plain: no data called 'group'.*Did you mean 'groups'"),
        ("${STUDY_DATA}", "${NO_SUCH_VARIABLE}", r"environments\.plain: the environment variable NO_SUCH_VARIABLE"),
        ('path = "${STUDY_DATA}/sub/file.csv"', "", r"environments\.plain: data needs its file"),
        ("n_actions = 3", "n_action = 3", r"environments\.plain: .*unexpected keyword argument 'n_action'"),
        ("n_actions = 3", "n_actions = 7", r"environments\.plain: \[Errno 2\]"),
    ],
)
def test_data_that_cannot_be_had_is_named(tmp_path, monkeypatch, before, after, message):
    monkeypatch.setenv("STUDY_DATA", "/somewhere")

    def load(path, *, n_actions):
        if n_actions == 7:
            path.open()
        return Clustered(n_actions=n_actions)

    with pytest.raises(InvalidParameter, match=message):
        Study.from_toml(written(tmp_path, LOADED.replace(before, after, 1)), loaders={"groups": load})


ITEMS = """
name = "words"
horizon = 5
seeds = 1

[environments.words]
class = "Candidates"
items = ["apple", "apply", "pear", "plum"]
values = [1.0, 1.0, 0.0, 0.0]
n_actions = 2

[policies.KernelUCB]
class = "KernelUCB"
kernel = { class = "Sum", parts = [{ class = "TfIdf", corpus = { items_of = "words" } }, { class = "Spectrum" }] }
"""


def test_a_kernel_may_know_the_items_of_an_environment(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(ITEMS, encoding="utf-8")

    policy = Study.from_toml(path).variants[0].build(0)

    expected = TfIdf(["apple", "apply", "pear", "plum"]) + Spectrum()
    assert policy.kernel.describe() == expected.describe()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('items_of = "words"', 'items_of = "word"', "kernel.parts.0.corpus: there is no environment 'word'.*'words'"),
        ('class = "Candidates"', 'class = "Clustered"', "'words' has no items"),
    ],
)
def test_items_that_are_not_there_are_named(tmp_path, before, after, message):
    path = tmp_path / "study.toml"
    text = ITEMS.replace(before, after)
    if "Clustered" in text:
        text = text.replace('items = ["apple", "apply", "pear", "plum"]\nvalues = [1.0, 1.0, 0.0, 0.0]\n', "")
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InvalidParameter, match=message):
        Study.from_toml(path)


def test_the_mark_that_some_editors_write_first_is_no_mistake(tmp_path):
    path = written(tmp_path, "\ufeff" + STUDY)

    assert Study.from_toml(path).name == "bump"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("seeds = 3", f"seeds = {10**23}", "The number of seeds must be a whole number of at most 1000000"),
        ("seeds = 3", "seeds = -1", "The number of seeds must be a whole number of at least 1"),
        ("seeds = 3", f"seeds = [{10**23}]", "A seed must be a whole number of at most 9223372036854775807"),
        ("seeds = 3", "seeds = [-1]", "A seed must be a whole number of at least 0"),
        ("seeds = 3", "seeds = nan", "Seeds are whole numbers"),
        ("seeds = 3", "seeds = 400_000", "at most 1,000,000 jobs"),
        ("seeds = 3", "seeds = 1" + "0" * 5000, "is not TOML"),
        ("seeds = 3", "seeds = " + "[" * 5000 + "]" * 5000, "is not TOML"),
        ("horizon = 20", f"horizon = {10**23}", "The horizon must be a whole number of at most 100000000"),
        ("horizon = 20", "horizon = -5", "The horizon must be a whole number of at least 1"),
        ("horizon = 20", "horizon = inf", "The horizon must be"),
        (
            "seeds = 3",
            f"seeds = 3\nevery = {10**23}",
            "rounds per row .* at most 100000000, .* 20, the horizon, stores the last",
        ),
        ("seeds = 3", f"seeds = 3\nevery = {2**63}", "rounds per row must be a whole number of at most 100000000"),
        (
            'class = "UCB1"',
            f'class = "UCB1"\nlearn_rounds = {10**23}',
            "rounds to learn from must be .* at most 100000000",
        ),
    ],
)
def test_absurd_sizes_are_rejected(tmp_path, before, after, message):
    assert before in ABSURD
    path = written(tmp_path, ABSURD.replace(before, after))

    with pytest.raises(InvalidParameter, match=message):
        Study.from_toml(path)


def test_grids_without_end_are_rejected():
    grids = {f"name {number}": Grid(*range(10)) for number in range(20)}

    with pytest.raises(InvalidParameter, match="at most 100,000 combinations"):
        next(expand_grids(grids))


ABSURD = """
name = "absurd"
horizon = 20
seeds = 3

[environments.groups]
class = "Clustered"
n_actions = 3

[policies.Random]
class = "UniformRandom"

[policies.UCB1]
class = "UCB1"

[policies.LinUCB]
class = "LinUCB"
"""


def test_a_policy_inside_another_is_seeded_by_the_run_too():
    described = {"class": "Mixed", "epsilon": 0.1, "policy": {"class": "UniformRandom", "seed": 1}}

    with pytest.raises(InvalidParameter, match="UniformRandom is seeded by the run"):
        build_value(described, "policies.mine", np.random.default_rng(0))
