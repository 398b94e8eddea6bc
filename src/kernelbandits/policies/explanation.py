"""Decomposition of a score: contributions of past actions to the mean, and the exploration bonus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelbandits._text import encodable
from kernelbandits.errors import InvalidReward
from kernelbandits.posterior import Posterior
from kernelbandits.types import Point, Points, Prediction
from kernelbandits.validation import check_int

__all__ = ["Contribution", "Explanation", "explanation_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contribution:
    """Contribution of one past action to a mean."""

    context: Point
    similarity: float
    """k(past context, explained context)."""

    weight: float
    """Coefficient of the similarity in the mean."""

    share: float
    """weight · similarity: the contribution to the mean."""

    times: float
    """Number of times this context was learned from; fractional if older observations are discounted."""

    mean_reward: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation:
    """Decomposition of an action's score under the current model. `str()` formats it as a table."""

    mean: float
    width: float
    exploration: float
    bonus: float
    """exploration · width: the part of the score that rewards exploration."""

    contributions: tuple[Contribution, ...]
    """The largest contributions to the mean, largest first."""

    remainder: float
    """Contribution of all other past actions to the mean."""

    @property
    def score(self) -> float:
        """Mean + bonus."""
        return self.mean + self.bonus

    @property
    def exploration_share(self) -> float:
        """Bonus as a fraction of |mean| + bonus: 1 if the score is due to exploration alone."""
        total = abs(self.mean) + self.bonus
        return self.bonus / total if total > 0 else 0.0

    def __str__(self) -> str:
        lines = [
            f"score {self.score:.4g} = mean {self.mean:.4g} + exploration {self.exploration:.4g} · width "
            f"{self.width:.4g}  ({self.exploration_share:.0%} exploration)",
        ]
        if self.contributions:
            lines.append(f"{'share':>10} {'similarity':>11} {'weight':>10} {'times':>6} {'reward':>8}  past context")
        for part in self.contributions:
            context = (
                np.array2string(part.context, precision=3, threshold=6)
                if isinstance(part.context, np.ndarray)
                else " ".join(str(part.context).split())
            )
            lines.append(
                f"{part.share:>10.4g} {part.similarity:>11.4g} {part.weight:>10.4g} {part.times:>6.6g} "
                f"{part.mean_reward:>8.4g}  {context!s:.60}"
            )
        if self.contributions:
            lines.append(f"{self.remainder:>10.4g} from all others")
        return encodable("\n".join(lines))


def explanation_of(
    posterior: Posterior, point: Points, *, exploration: float, most: int, prediction: Prediction | None = None
) -> Explanation:
    """Decompose the score of one point; pass `prediction` if the width uses more than the posterior's own data."""
    if prediction is None:
        prediction = posterior.predict(point)
    mean, width = float(prediction.mean[0]), float(prediction.width[0])
    contributions = _contributions(posterior, point, most=check_int(most, "The number of past actions", least=0))
    return Explanation(
        mean=mean,
        width=width,
        exploration=exploration,
        bonus=exploration * width,
        contributions=contributions,
        remainder=mean - sum(part.share for part in contributions),
    )


def _contributions(posterior: Posterior, point: Points, *, most: int) -> tuple[Contribution, ...]:
    """Return the largest contributions to the mean at one point: mean = Σ weight · similarity over past contexts."""
    if not posterior.size:
        return ()
    past, weights, counts, sums = posterior.support()
    similarity = posterior.kernel.gram(past, point)[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected below with a clear error message
        shares = weights * similarity
    if not np.isfinite(shares).all():
        raise InvalidReward("The parts of this mean are more than a float64 holds. Scale the rewards down.")
    largest = np.argsort(-np.abs(shares), kind="stable")[:most]
    return tuple(
        Contribution(
            context=posterior.kernel.kind.one(past, int(row)),
            similarity=float(similarity[row]),
            weight=float(weights[row]),
            share=float(shares[row]),
            times=_plain(float(counts[row])),
            mean_reward=float(sums[row] / counts[row]),
        )
        for row in largest
    )


def _plain(count: float) -> float:
    """Convert a whole-number count to an integer."""
    return int(count) if count.is_integer() else count
