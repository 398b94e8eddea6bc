"""MNIST, frozen and learning to the end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kernelbandits.experiments import Results
from kernelbandits.experiments.plotting.curves import Markers, curve_grid
from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.reports.tables import markdown_rows
from studies.curves import as_curve, ends_in_words, repeats, thinned
from studies.numbers import at_rounds, by_policy, spread, spread_of, spread_text
from studies.pictures import markdown_of

TITLE: Final = "MNIST"
STUDIES: Final = ("classification_frozen", "classification_learning", "mnist")
ROUNDS: Final = (1_000, 2_000, 5_000, 10_000)

PUBLISHED: Final = {
    "NeuralUCB (5 runs)": ("343.2 ± 18.9", "471.2 ± 27.9", "738.6 ± 23.4", "1,065.4 ± 34.7"),
    "NeuralTS (5 runs)": ("422.2 ± 46.1", "565.6 ± 75.4", "823.2 ± 78.4", "1,138.6 ± 100.7"),
    "EE-Net (3 runs)": ("333.7 ± 10.0", "466.7 ± 19.9", "721.7 ± 17.2", "1,052.0 ± 1.7"),
}
"""Cumulative regret in the files of Ban et al. (2022)."""

FROZEN: Final = "KernelUCB, frozen"
LOOKS: Final = {
    FROZEN: ("KernelUCB, frozen", "orange"),
    "KernelUCB, learning to the end": ("KernelUCB, learning to the end", "green"),
    "KernelUCB, Gaussian": ("KernelUCB, Gaussian", "blue"),
}
PUBLISHED_LOOKS: Final = (
    ("red", Markers(shape="o", offset=-4.0)),
    ("purple", Markers(shape="s")),
    ("black", Markers(shape="D", offset=4.0)),
)

FROZEN_REFERENCE: Final = ("542.0", "", "", "3,914.0 ± 463.1")


def collect(results: Mapping[str, Results]) -> dict[str, Any]:
    """Regret at four rounds, and its curves."""
    played = {
        policy: runs
        for study in STUDIES
        for (data, policy), runs in by_policy(results[study], "regret").items()
        if data == "mnist" and policy != "Random"
    }
    rows = [
        {"policy": policy, **{str(t): spread(at_rounds(runs, t)) for t in ROUNDS}} for policy, runs in played.items()
    ]
    curves = [{"policy": policy, **thinned(runs)} for policy, runs in played.items()]
    return {"rows": rows, "curves": curves}


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """All curves, and without the frozen one, which leaves the others no room."""
    published = [
        as_curve(_published(cells), label=name.partition(" (")[0], color=color, markers=markers)
        for (name, cells), (color, markers) in zip(PUBLISHED.items(), PUBLISHED_LOOKS, strict=True)
    ]
    ours = {}
    for curve in found["curves"]:
        label, color = LOOKS[curve["policy"]]
        ours[curve["policy"]] = as_curve(curve, label=label, color=color)
    everything = {"All policies": [*ours.values(), *published]}
    short = {policy: (label.removeprefix("KernelUCB, "), color) for policy, (label, color) in LOOKS.items()}
    others = [curve for policy, curve in ours.items() if policy != FROZEN]
    shown = everything | {"Without the frozen one": [*others, *published]}
    return ReportFigure(
        name="mnist",
        title=TITLE,
        section=TITLE,
        caption=(
            "Cumulative regret (errors) on MNIST. Lines: KernelUCB with three settings of this section. "
            f"{repeats(found['curves'], short)} Points: published values of {', '.join(PUBLISHED)} with their "
            "published standard deviations, shifted where they share a round."
        ),
        alt_text=(
            "Lines of cumulative regret over rounds, with published points at rounds "
            f"{', '.join(f'{t:,}' for t in ROUNDS)}. After the last round: {ends_in_words(everything)}."
        ),
        draw=partial(curve_grid, shown, y_label="Cumulative regret (errors)"),
    )


def _published(cells: tuple[str, ...]) -> dict[str, Any]:
    mean, deviation = zip(*map(spread_of, cells), strict=True)
    return {"rounds": ROUNDS, "mean": mean, "deviation": deviation}


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    table = [["policy", *(f"t = {t:,}" for t in ROUNDS)]]
    for row in found["rows"]:
        n_runs = row[str(ROUNDS[0])]["n_runs"]
        table.append([f"{row['policy']} ({n_runs} runs)", *(spread_text(row[str(t)]) for t in ROUNDS)])
        if "frozen" in row["policy"]:
            table.append(["the same, independent reference (3 runs)", *FROZEN_REFERENCE])
    table += [[f"{name}, published", *cells] for name, cells in PUBLISHED.items()]
    return f"""\
Ten classes, 10,000 rounds. The first two policies are those of the section above; the third has one Gaussian kernel
per class and learns in every round. The published curves are from the files of Ban et al. (2022), who standardize the
pixels and draw from the 60,000 training images. This study uses the 10,000 test images, as rows of length 1, so the two
are comparable but not identical. A later version of that paper (Ban, Yan, Banerjee and He 2023) reports fewer errors
according to an index of results (wizwand.com): 842.3 for EE-Net and 943.5 for NeuralUCB. Its curves were not available.

{markdown_of(drawing(found))}

{markdown_rows(table)}"""
