"""Proved properties of kernelized bandits as functions of measurable quantities.

The package has three parts. *Dimension of the data:* `effective_dimension` and related functions compute it from the
spectrum of a Gram matrix, and `maximum_information_gain` bounds the information in points yet to be chosen. *Width of
an interval:* an exploration schedule defines it per round; use `Mixture` by default, or a number if no guarantee is
needed. *Regret:* `sup_kernel_ucb_bound` and `kernel_ucb_bound` hold for the policies of this library, and
`compare_bounds` tabulates them beside those of other systems.

Every formula states its assumptions next to it, because a bound quoted without them is a different bound. Where the
paper's text is wrong the corrected statement is implemented, and `docs/errata.md` gives the reason. The lemmas behind
the theorems are included as checks that can be run on any trace: start with `lemma_1`.
"""

from kernelbandits.theory.bounds import (
    balanced_regularization,
    horizon_logarithm,
    kappa,
    kernel_ucb_bound,
    kernel_ucb_trace_bound,
    n_stages,
    pseudo_to_realized,
    simple_regularization,
    sup_kernel_ucb_anytime_scale,
    sup_kernel_ucb_bound,
    sup_kernel_ucb_data_bound,
    sup_kernel_ucb_scale,
    theorem_1_bound,
)
from kernelbandits.theory.exploration import (
    IGPUCB,
    Constant,
    Exploration,
    FixedDesign,
    GPUCBAgnostic,
    GPUCBFinite,
    Mixture,
    RoundState,
    SelfNormalized,
    as_exploration,
    exploration_from,
)
from kernelbandits.theory.lemmas import (
    Check,
    elliptical_potential,
    gain_and_dimension,
    interlacing,
    lemma_1,
    lemma_2,
    lemma_3,
    lemma_4,
    lemma_5,
    lemma_6,
    lemma_7,
    shrinking_widths,
)
from kernelbandits.theory.maximum_gain import (
    MaximumGain,
    finite_dimension_gain,
    information_gain_rate,
    maximum_information_gain,
)
from kernelbandits.theory.related_bounds import (
    compare_bounds,
    confidence_ball_bound,
    exp4_bound,
    exp4p_bound,
    format_bounds,
    gp_ucb_agnostic_bound,
    gp_ucb_bound,
    oful_bound,
    policy_elimination_bound,
    sup_lin_rel_bound,
    ucb1_bound,
)
from kernelbandits.theory.spectra import (
    effective_dimension,
    effective_dimension_bound,
    information_gain,
    leading_spectrum,
    log_det_gain,
    statistical_dimension,
)

__all__ = [
    "IGPUCB",
    "Check",
    "Constant",
    "Exploration",
    "FixedDesign",
    "GPUCBAgnostic",
    "GPUCBFinite",
    "MaximumGain",
    "Mixture",
    "RoundState",
    "SelfNormalized",
    "as_exploration",
    "balanced_regularization",
    "compare_bounds",
    "confidence_ball_bound",
    "effective_dimension",
    "effective_dimension_bound",
    "elliptical_potential",
    "exp4_bound",
    "exp4p_bound",
    "exploration_from",
    "finite_dimension_gain",
    "format_bounds",
    "gain_and_dimension",
    "gp_ucb_agnostic_bound",
    "gp_ucb_bound",
    "horizon_logarithm",
    "information_gain",
    "information_gain_rate",
    "interlacing",
    "kappa",
    "kernel_ucb_bound",
    "kernel_ucb_trace_bound",
    "leading_spectrum",
    "lemma_1",
    "lemma_2",
    "lemma_3",
    "lemma_4",
    "lemma_5",
    "lemma_6",
    "lemma_7",
    "log_det_gain",
    "maximum_information_gain",
    "n_stages",
    "oful_bound",
    "policy_elimination_bound",
    "pseudo_to_realized",
    "shrinking_widths",
    "simple_regularization",
    "statistical_dimension",
    "sup_kernel_ucb_anytime_scale",
    "sup_kernel_ucb_bound",
    "sup_kernel_ucb_data_bound",
    "sup_kernel_ucb_scale",
    "sup_lin_rel_bound",
    "theorem_1_bound",
    "ucb1_bound",
]
