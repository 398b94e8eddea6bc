import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from kernelbandits.environments import Clustered
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments import Study, run
from kernelbandits.experiments.own_files import OwnFile
from kernelbandits.policies import Policy
from small_studies import bytes_of

MINE = """
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import kernelbandits as kb
from kernelbandits.environments import DrawnRounds, Round
from kernelbandits.kernels import Gaussian, Kernel
from kernelbandits.policies import REWARD_RANGE, SEED, Policy, Selection, parameter
from kernelbandits.posterior import ExactPosterior


@dataclass(frozen=True)
class Cauchy(Kernel):
    length_scale: float = 1.0

    def gram(self, first, second=None):
        second = first if second is None else second
        distance = np.square(first[:, None, :] - second[None, :, :]).sum(axis=2)
        return 1.0 / (1.0 + distance / self.length_scale**2)

    def diagonal(self, points):
        return np.ones(len(points))


def inverse_distance(first, second):
    return Cauchy(0.5).gram(first, second)


class Twice(ExactPosterior):
    def __init__(self, kernel, *, regularization, factor=2.0):
        super().__init__(kernel, regularization=factor * regularization)


class First(Policy):
    place = parameter(int, default=0)
    reward_range = parameter(REWARD_RANGE, default=None)
    seed = parameter(SEED, default=None, is_described=False)

    def _kind(self, contexts):
        return Gaussian(length_scale=1.0).kind

    def _pick(self, actions):
        return Selection(self.place)

    def _update(self, decision, reward):
        pass

    def _state(self):
        return {}

    def _restore(self, state):
        pass


def careful(exploration, seed=None):
    return kb.Mixed(kb.KernelUCB(Cauchy(0.3), exploration=exploration), epsilon=0.2, seed=seed)


@dataclass(frozen=True)
class Coins:
    n_actions: int = 3
    reward_range = (0.0, 1.0)

    def start(self, rng):
        chances, contexts = rng.random(self.n_actions), rng.random((self.n_actions, 2))
        return DrawnRounds(
            (Round(contexts, expected=chances), (rng.random(self.n_actions) < chances) * 1.0) for _ in range(99)
        )

    def describe(self):
        return {"class": "Coins", "n_actions": self.n_actions}


def fair_coins():
    return Coins(n_actions=2)


class Helper:
    pass


class _Hidden(First):
    pass


if __name__ == "__main__":
    raise RuntimeError("It is not a script here.")
"""

STUDY = """
name = "own"
horizon = 12
seeds = 2
every = 4
[environments.coins]
class = "Coins"
n_actions = 4
[environments.groups]
class = "Clustered"
n_actions = 4
[policies.First]
class = "First"
grid = { place = [0, 1] }
[policies.careful]
class = "careful"
exploration = 0.3
[policies.function]
class = "KernelUCB"
kernel = { function = "inverse_distance" }
[policies.inside]
class = "Mixed"
epsilon = 0.1
policy = { class = "KernelUCB", kernel = { class = "Cauchy" }, grid_free = 1 }
[policies.twice]
class = "KernelUCB"
kernel = { class = "Gaussian", length_scale = 0.3 }
posterior = { class = "Twice", factor = 3.0 }
[policies.UCB1]
class = "UniformRandom"
""".replace(", grid_free = 1", "")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    return tmp_path


def read(folder, *files):
    return Study.from_toml(folder / "study.toml", classes=[folder / name for name in files or ("mine.py",)])


def change(folder, name, before, after):
    text = (folder / name).read_text(encoding="utf-8")
    assert before in text
    (folder / name).write_text(text.replace(before, after, 1), encoding="utf-8")


def used(study):
    """Files of each job, by environment and policy."""
    return {(job.environment, job.spec_name): set(job.described.get("sources", {})) for job in study.jobs}


def test_policies_kernels_posteriors_and_worlds_of_a_file_are_names(folder):
    study = read(folder)
    described = {job.policy: job.described["policy"] for job in study.jobs}
    policy = study.variants[-2].build(0)

    assert study.environments["coins"].describe() == {"class": "Coins", "n_actions": 4}
    assert described["First, place=1"]["class"] == "First"
    assert described["careful"]["policy"]["kernel"] == {"class": "Cauchy", "length_scale": 0.3}
    assert described["function"]["kernel"]["function"].endswith("inverse_distance")
    assert described["inside"]["policy"]["kernel"]["class"] == "Cauchy"
    assert described["twice"]["posterior"] == {"class": "Twice", "factor": 3.0}
    assert type(policy.posterior).__name__ == "Twice"
    assert policy.posterior.regularization == 3.0 * policy.regularization


def test_a_function_that_builds_a_policy_or_a_world_is_called(folder):
    change(folder, "study.toml", 'class = "Coins"\nn_actions = 4', 'class = "fair_coins"')

    study = read(folder)

    assert study.environments["coins"].n_actions == 2
    first, again, other = (study.variants[2].build(seed) for seed in (0, 0, 1))
    contexts = np.random.default_rng(0).random((40, 9, 2))
    actions = [[policy.choose(shown).action for shown in contexts] for policy in (first, again, other)]
    assert actions[0] == actions[1] != actions[2]  # it takes a seed, so the run seeds it


def test_ids_hold_the_file_of_what_a_job_uses_and_of_nothing_else(folder):
    before = read(folder)
    change(folder, "mine.py", "return Selection(self.place)", "return Selection(0)")
    after = read(folder)

    same = {
        (old.environment, old.spec_name): old.id == new.id for old, new in zip(before.jobs, after.jobs, strict=True)
    }
    assert used(before)["groups", "UCB1"] == set()
    assert all(files == {"mine.py"} for place, files in used(before).items() if place != ("groups", "UCB1"))
    assert same == {place: place == ("groups", "UCB1") for place in same}


def test_ids_of_studies_without_own_classes_are_unchanged(folder):
    (folder / "study.toml").write_text(
        'name = "x"\nhorizon = 5\nseeds = 1\n[environments.groups]\nclass = "Clustered"\nn_actions = 3\n'
        '[policies.chance]\nclass = "UniformRandom"\n',
        encoding="utf-8",
    )

    assert [job.id for job in read(folder).jobs] == [job.id for job in Study.from_toml(folder / "study.toml").jobs]


def test_results_are_equal_in_this_process_and_in_others(folder):
    study = read(folder)
    run(study, folder / "here", workers=1)
    (folder / "mine.py").unlink()  # the content travels: no process reads the file again

    run(study, folder / "there", workers=2)

    assert len(bytes_of(folder / "here")) == len(study.jobs) == 28
    assert bytes_of(folder / "here") == bytes_of(folder / "there")


def test_a_pickled_study_is_opened_where_nothing_was_imported(folder):
    (folder / "study.pickle").write_bytes(pickle.dumps(read(folder)))
    (folder / "mine.py").unlink()
    code = "import pickle, sys; print([job.id for job in pickle.load(open(sys.argv[1], 'rb')).jobs])"

    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "study.pickle")], capture_output=True, text=True, check=True
    )

    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    assert done.stdout.strip() == str([job.id for job in read(folder).jobs])


@pytest.mark.long
def test_ray_runs_own_classes(folder):
    pytest.importorskip("ray")
    change(folder, "study.toml", "seeds = 2", "seeds = 1")
    study = read(folder)

    run(study, folder / "far", engine="ray")

    run(study, folder / "here", workers=1)
    assert bytes_of(folder / "far") == bytes_of(folder / "here")


def test_two_versions_of_a_file_live_side_by_side(folder):
    old = read(folder)
    change(folder, "mine.py", "Selection(self.place)", "Selection(2)")
    new = read(folder)

    contexts = np.eye(3)
    assert old.variants[0].build(0).choose(contexts).action == 0
    assert new.variants[0].build(0).choose(contexts).action == 2
    assert pickle.loads(pickle.dumps(old)).variants[0].build(0).choose(contexts).action == 0
    assert read(folder).variants[0].make.make is new.variants[0].make.make  # an unchanged file is run once


def test_classes_can_be_given_themselves(folder):
    (folder / "study.toml").write_text(
        'name = "x"\nhorizon = 5\nseeds = 1\n[environments.groups]\nclass = "world"\n'
        '[policies.first]\nclass = "First"\n',
        encoding="utf-8",
    )
    own = OwnFile.read(folder / "mine.py").classes()["First"]

    def world():
        return Clustered(n_actions=3)

    study = Study.from_toml(folder / "study.toml", classes=[own, world])

    assert study.variants[0].build(0).describe()["class"] == "First"
    assert used(study) == {("groups", "first"): set()}


def test_only_what_is_public_or_listed_is_a_name(folder):
    assert set(OwnFile.read(folder / "mine.py").classes()) == {
        "Cauchy", "Coins", "First", "Helper", "Twice", "careful", "fair_coins", "inverse_distance"
    }  # fmt: skip
    (folder / "listed.py").write_text(
        "from pathlib import Path\nclass Left: pass\nclass _Right: pass\n__all__ = ['Path', '_Right']\n"
    )
    assert set(OwnFile.read(folder / "listed.py").classes()) == {"Path", "_Right"}


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        (
            "study.toml",
            'class = "First"',
            'class = "Frist"',
            r"policies\.First: no class 'Frist' is known\. Did you mean 'First'",
        ),
        (
            "study.toml",
            'class = "First"',
            'class = "Helper"',
            r"policies\.First: every policy has choose\(\), and the class Helper has not",
        ),
        ("study.toml", 'class = "First"', 'class = "_Hidden"', r"policies\.First: no policy class '_Hidden' is known"),
        (
            "study.toml",
            'class = "First"',
            'class = "os.system"',
            r"policies\.First: no policy class 'os\.system' is known",
        ),
        (
            "study.toml",
            'class = "Coins"',
            'class = "First"',
            r"environments\.coins: every environment has start\(\), and the class First has not",
        ),
        (
            "study.toml",
            '"inverse_distance"',
            '"inverse_distanc"',
            r"policies\.function\.kernel: no function .* Did you mean",
        ),
        (
            "study.toml",
            "n_actions = 4",
            "n_action = 4",
            r"environments\.coins: Coins takes no 'n_action'. Did you mean 'n_actions'",
        ),
        ("study.toml", "factor = 3.0", "facto = 3.0", r"policies\.twice: .*'facto'"),
        ("study.toml", "place = [0, 1]", 'place = ["a"]', r"policies\.First, place=a: "),
        (
            "study.toml",
            "exploration = 0.3",
            "exploration = 0.3\nseed = 1",
            r"policies\.careful: careful is seeded by the run",
        ),
        (
            "mine.py",
            "class Cauchy",
            "class Gaussian",
            r"mine\.py: 'Gaussian' is the name of a class of this library.*Rename",
        ),
        (
            "mine.py",
            "def careful",
            "1 / 0\n\ndef careful",
            r"mine\.py could not be run: ZeroDivisionError: division by zero \(line \d+\)",
        ),
        ("mine.py", "def careful", "raise SystemExit(3)\n\ndef careful", r"mine\.py could not be run: SystemExit: 3"),
        ("mine.py", "def careful", "def careful careful", r"mine\.py could not be run: SyntaxError: .*line \d+"),
        (
            "mine.py",
            "import numpy as np",
            "import nunpy as np",
            r"mine\.py could not be run: ModuleNotFoundError: No module",
        ),
        ("mine.py", "    return Coins(n_actions=2)", "    return 3", r"The environment of environments\.coins"),
        ("mine.py", "    return kb.Mixed(", "    return str(", "policies.careful: "),
    ],
)
def test_a_mistake_is_named_with_its_place(folder, name, before, after, message):
    if before == "    return Coins(n_actions=2)":
        change(folder, "study.toml", 'class = "Coins"\nn_actions = 4', 'class = "fair_coins"')
    change(folder, name, before, after)
    n_modules = len(sys.modules)

    with pytest.raises(InvalidParameter, match=message):
        read(folder)

    if name == "mine.py" and "could not be run" in message:
        assert len(sys.modules) == n_modules


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["nowhere.py"], r"nowhere\.py' cannot be read: No such file"),
        ("mine.py", r'are a list: classes=\["mine\.py"\]'),
        ([3], "is a class, a function, or the path of a Python file, got 3"),
        (["mine.py", "other/mine.py"], r"Two files are called 'mine\.py'. Rename one"),
        (["mine.py", "more.py"], r"more\.py: 'First' is given twice, also by mine\.py"),
        (["empty.py"], r"empty\.py defines no public class and no public function"),
    ],
)
def test_files_that_do_not_fit_are_rejected(folder, monkeypatch, classes, message):
    monkeypatch.chdir(folder)
    (folder / "more.py").write_text("class First: pass\n")
    (folder / "empty.py").write_text("from pathlib import Path\n_private = 3\n")
    (folder / "other").mkdir()
    (folder / "other" / "mine.py").write_text("class Other: pass\n")

    with pytest.raises(InvalidParameter, match=message):
        Study.from_toml("study.toml", classes=classes)


def test_without_the_file_its_classes_are_unknown_and_the_message_says_how_to_give_it(folder):
    change(folder, "study.toml", '{ function = "inverse_distance" }', '{ class = "Linear" }')

    with pytest.raises(InvalidParameter, match=r"no environment class 'Coins' is known.*--with FILE\.py"):
        Study.from_toml(folder / "study.toml")


# What a result folder keeps


def kept(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.suffix in (".toml", ".py")}  # fmt: skip


def test_the_folder_keeps_the_study_and_the_files_byte_for_byte(folder):
    (folder / "study.toml").write_bytes(b"\xef\xbb\xbf# mine\r\n" + STUDY.replace("seeds = 2", "seeds = 1").encode())

    run(read(folder), folder / "results", workers=1)

    assert kept(folder / "results") == {
        "study.toml": (folder / "study.toml").read_bytes(), "sources/mine.py": MINE.encode()
    }  # fmt: skip
    again = Study.from_toml(folder / "results" / "study.toml", classes=[folder / "results" / "sources" / "mine.py"])
    assert [job.id for job in again.jobs] == json.loads((folder / "results" / "study.json").read_text())["jobs"]


def test_files_of_an_earlier_study_are_replaced_or_removed(folder):
    run(read(folder), folder / "results", workers=1)
    change(folder, "study.toml", "horizon = 12", "horizon = 13")
    change(folder, "mine.py", "Selection(self.place)", "Selection(2)")

    run(read(folder), folder / "results", workers=1)
    changed = kept(folder / "results")
    run(Study(name="x", horizon=2, seeds=1, environments={"groups": Clustered(n_actions=2)},
              policies={"chance": read(folder).policies["UCB1"]}), folder / "results", workers=1)  # fmt: skip

    assert changed == {"study.toml": (folder / "study.toml").read_bytes(),
                       "sources/mine.py": (folder / "mine.py").read_bytes()}  # fmt: skip
    assert kept(folder / "results") == {}
    assert not (folder / "results" / "sources").exists()


def test_a_file_that_no_run_wrote_is_left_alone(folder):
    (folder / "results").mkdir()
    (folder / "results" / "study.toml").write_text("precious", encoding="utf-8")

    with pytest.raises(InvalidParameter, match=r"study\.toml' is not what a run wrote, so it is not overwritten"):
        run(read(folder), folder / "results", workers=1)

    assert kept(folder / "results") == {"study.toml": b"precious"}
    python = Study(name="x", horizon=2, seeds=1, environments={"groups": Clustered(n_actions=2)},
                   policies={"chance": read(folder).policies["UCB1"]})  # fmt: skip
    run(python, folder / "results", workers=1)
    assert kept(folder / "results") == {"study.toml": b"precious"}


def test_a_changed_copy_of_a_study_is_not_the_file(folder):
    from dataclasses import replace

    study = read(folder)
    fewer = replace(study, seeds=1)

    assert study.toml == (folder / "study.toml").read_bytes()
    assert fewer.toml is None
    assert set(fewer.files) == {"mine.py"}


def test_own_policies_are_policies(folder):
    assert issubclass(OwnFile.read(folder / "mine.py").classes()["First"], Policy)
