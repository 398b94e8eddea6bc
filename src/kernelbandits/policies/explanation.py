"""Decomposition of a score: contributions of past actions to the mean, and the exploration bonus."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from kernelbandits._frames import FrameKind, frame_of
from kernelbandits._text import array_text, encodable, html_table, repr_of_fields, short_repr
from kernelbandits.errors import InvalidReward
from kernelbandits.kernels.composite import constant_in
from kernelbandits.posterior import Posterior
from kernelbandits.types import Certificate, Pairs, Point, Points, Prediction
from kernelbandits.validation import check_int

__all__ = ["Contribution", "Explanation", "explanation_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Contribution:
    """Contribution of one past action to a mean."""

    __repr__ = repr_of_fields

    context: Point
    similarity: float
    """k(past context, explained context), without the constant part of the kernel."""

    weight: float
    """Coefficient of the similarity in the mean."""

    effect: float
    """weight · similarity: what it adds to the mean."""

    share: float
    """|effect| as a fraction of the sum of |effect| of all parts of the mean. All shares sum to 1."""

    times: float
    """Number of times this context was learned from; fractional if older observations are discounted."""

    mean_reward: float
    """NaN if nothing that was learned is of this very context: a point of a dictionary whose reward was removed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Explanation:
    """Decomposition of an action's score under the current model. `str()` formats it as a sentence and a table.

    score = mean + bonus, and mean = usual + Σ effect of contributions + remainder.
    """

    __repr__ = repr_of_fields

    mean: float
    width: float
    exploration: float
    bonus: float
    """exploration · width: the part of the score that rewards exploration."""

    usual: float | None = None
    """Part of the mean due to the constant of the kernel: the same for every action. None for a kernel without one."""

    usual_share: float = 0.0
    """Share of `usual`, as in `Contribution`."""

    contributions: tuple[Contribution, ...] = ()
    """The largest contributions to the mean, largest first."""

    remainder: float = 0.0
    """Contribution of all other past actions to the mean."""

    remainder_share: float = 0.0
    """Sum of the shares of all other past actions."""

    error: float | None = None
    """Certified bound on the difference of mean and width from those of all observations; None if they are exact."""

    certificate: Certificate | None = None
    """The terms of `error`."""

    @property
    def score(self) -> float:
        """Mean + bonus."""
        return self.mean + self.bonus

    @property
    def exploration_share(self) -> float:
        """Bonus as a fraction of |mean| + bonus: 1 if the score is due to exploration alone."""
        total = abs(self.mean) + self.bonus
        return self.bonus / total if total > 0 else 0.0

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the parts of the score as columns, one row per part; the column `effect` sums to the score.

        The column `part` names them: "usual reward", "past context", "all others", "exploration". What a part does not
        have is NaN, or None for the text of a context.
        """
        usual = [] if self.usual is None else [("usual reward", self.usual, self.usual_share)]
        past = [("past context", one.effect, one.share) for one in self.contributions]
        is_listed_completely = self.remainder_share < ROUNDING and abs(self.remainder) <= ROUNDING * abs(self.mean)
        others = [] if is_listed_completely else [("all others", self.remainder, self.remainder_share)]
        rows = [*usual, *past, *others, ("exploration", self.bonus, nan)]
        before, after = len(usual), len(rows) - len(usual) - len(past)

        def padded(values: list[Any], blank: Any) -> list[Any]:
            return [blank] * before + values + [blank] * after

        return {
            "part": [row[0] for row in rows],
            "effect": [row[1] for row in rows],
            "share": [row[2] for row in rows],
            "similarity": padded([one.similarity for one in self.contributions], nan),
            "weight": padded([one.weight for one in self.contributions], nan),
            "times": padded([float(one.times) for one in self.contributions], nan),
            "mean_reward": padded([one.mean_reward for one in self.contributions], nan),
            "context": padded([_shown(one.context) for one in self.contributions], None),
        }

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return `to_columns` as a data frame of an installed library: "pandas", "polars" or "arrow"."""
        return frame_of(self.to_columns(), kind)

    def _sentence(self) -> str:
        known = self.certificate
        if self.error is None or known is None:
            return self._score_sentence()
        low, high = known.log_det_gain
        return (
            f"{self._score_sentence()} A dictionary of {known.n_atoms:,} points approximates it: mean and width are "
            f"within {self.error:.3g} (residual {known.residual:.3g}, inflation {known.inflation:.3g}, "
            f"log-determinant {low:.4g} to {high:.4g})."
        )

    def _score_sentence(self) -> str:
        if not self.contributions and not self.usual and self.mean == 0.0:
            return f"The score {self.score:.4g} is exploration alone: nothing learned so far predicts a reward."
        parts = [(self.usual_share, self.usual or 0.0, "the usual reward")]
        parts += [(one.share, one.effect, _cut(_shown(one.context), 40)) for one in self.contributions[:1]]
        share, effect, name = max(parts)
        reason = f", mostly from {name}," if share > 0.5 and effect > 0.0 else ""
        if self.bonus == 0.0:
            return f"The score {self.score:.4g} is the estimated reward{reason} without exploration."
        is_share = self.mean >= 0.0
        rest = f"and {self.exploration_share:.0%} exploration" if is_share else f"plus {self.bonus:.4g} for exploration"
        return f"The score {self.score:.4g} is an estimated reward of {self.mean:.4g}{reason} {rest}."

    def _rows(self) -> list[tuple[str, ...]]:
        columns = self.to_columns()
        rows = []
        for part, effect, share, similarity, weight, times, reward, context in zip(*columns.values(), strict=True):
            if part == "exploration":
                rows.append((f"{effect:.4g}", *[""] * 5, f"{part} {self.exploration:.4g} · width {self.width:.4g}"))
            elif part == "past context":
                numbers = (f"{similarity:.4g}", f"{weight:.4g}", f"{times:.6g}", f"{reward:.4g}")
                rows.append((f"{effect:.4g}", f"{share:.0%}", *numbers, _cut(context, 60)))
            else:
                rows.append((f"{effect:.4g}", f"{share:.0%}", *[""] * 4, part))
        return rows

    def __str__(self) -> str:
        lines = [self._sentence()]
        for row in [HEADER, *self._rows()]:
            cells = [f"{cell:>{width}}" for cell, width in zip(row, WIDTHS, strict=False)]
            lines.append(" ".join(cells) + f"  {row[-1]}")
        return encodable("\n".join(lines))

    def _repr_html_(self) -> str:
        return html_table(self._sentence(), self._rows(), HEADER)


ROUNDING = 1e-12
"""Fraction of a mean below which the part of past actions that are not listed is rounding."""

HEADER = ("effect", "share", "similarity", "weight", "times", "reward", "part of the score")
WIDTHS = (10, 6, 11, 10, 6, 8)
"""Widths of the columns of numbers in the text of an explanation."""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _shown(context: Point) -> str:
    """One context on one line; a pair as "context: action"."""
    if isinstance(context, Pairs):
        return f"{_shown(context.context)}: {_shown(context.actions)}"
    if isinstance(context, np.ndarray):
        return array_text(context)
    return " ".join((context if isinstance(context, str) else short_repr(context)).split())


def explanation_of(
    posterior: Posterior, point: Points, *, exploration: float, most: int, prediction: Prediction | None = None
) -> Explanation:
    """Decompose the score of one point; pass `prediction` if the width uses more than the posterior's own data."""
    if prediction is None:
        prediction = posterior.predict(point)
    mean, width = float(prediction.mean[0]), float(prediction.width[0])
    error, certificate = None if prediction.error is None else float(prediction.error[0]), prediction.certificate
    most = check_int(most, "The number of past actions", least=0)
    constant = constant_in(posterior.kernel)
    if not posterior.size:
        return Explanation(
            mean=mean, width=width, exploration=exploration, bonus=exploration * width, error=error,
            certificate=certificate,
        )  # fmt: skip
    past, weights, counts, sums = posterior.support()
    # With k = k₀ + c the mean Σ weight · k is c Σ weight, the same for every action, and Σ weight · k₀.
    similarity = posterior.kernel.gram(past, point)[:, 0] - constant
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected below with a clear error message
        effects = weights * similarity
        usual = constant * float(weights.sum())
    if not np.isfinite(effects).all():
        raise InvalidReward("The parts of this mean are more than a float64 holds. Scale the rewards down.")
    order = np.argsort(-np.abs(effects), kind="stable")
    merged = mean - usual - float(effects.sum())  # of observations that are no longer stored
    total = (float(np.abs(effects).sum()) + abs(usual) + abs(merged)) or 1.0
    shares = np.abs(effects) / total
    contributions = tuple(
        Contribution(
            context=posterior.kernel.kind.one(past, int(row)),
            similarity=float(similarity[row]),
            weight=float(weights[row]),
            effect=float(effects[row]) + 0.0,  # not −0.0
            share=float(shares[row]),
            times=_plain(float(counts[row])),
            mean_reward=float(sums[row] / counts[row]) if counts[row] else nan,
        )
        for row in order[:most]
    )
    return Explanation(
        mean=mean,
        width=width,
        exploration=exploration,
        bonus=exploration * width,
        usual=usual if constant else None,
        usual_share=abs(usual) / total,
        contributions=contributions,
        remainder=mean - usual - sum(part.effect for part in contributions),
        remainder_share=float(shares[order[most:]].sum()) + abs(merged) / total,
        error=error,
        certificate=certificate,
    )


def _plain(count: float) -> float:
    """Convert a whole-number count to an integer."""
    return int(count) if count.is_integer() else count
