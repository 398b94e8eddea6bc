"""Oracle 14: what the paper proves about widths and spectra holds on every run of KernelUCB."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.kernels import Gaussian, Linear, Matern
from kernelbandits.theory import (
    effective_dimension,
    elliptical_potential,
    lemma_2,
    lemma_3,
    lemma_4,
    log_det_gain,
    statistical_dimension,
)

HORIZON = 60


@pytest.mark.parametrize("gamma", [0.02, 0.7, 8.0])
@pytest.mark.parametrize(
    "kernel", [Gaussian(length_scale=0.3), Matern(smoothness=1.5, length_scale=0.5), Linear() * 0.5], ids=str
)
def test_widths_and_spectra_of_a_run(kernel, gamma):
    rng = np.random.default_rng(0)
    policy = kb.KernelUCB(kernel, regularization=gamma, exploration=0.7)
    played, widths, spectra = [], [], [np.zeros(HORIZON)]
    for _ in range(HORIZON):
        contexts = rng.uniform(size=(6, 2))
        decision = policy.choose(contexts)
        policy.learn(decision, float(np.sin(5 * contexts[decision.action, 0]) + 0.1 * rng.normal()))
        played.append(decision.context)
        widths.append(decision.width)
        eigenvalues = np.linalg.eigvalsh(kernel.gram(np.array(played)))[::-1]
        spectra.append(np.maximum(np.append(eigenvalues, np.zeros(HORIZON - len(eigenvalues))), 0.0))

    gram = kernel.gram(np.array(played))
    dimension = effective_dimension(gram, regularization=gamma, horizon=HORIZON)
    for before, after, width in zip(spectra, spectra[1:], widths, strict=False):
        assert lemma_3(before, after, width=width, regularization=gamma).holds
    gain = log_det_gain(gram, regularization=gamma)
    assert elliptical_potential(np.array(widths), log_det_gain=gain, regularization=gamma).holds
    assert lemma_4(np.array(widths), effective_dimension=dimension, regularization=gamma, horizon=HORIZON).holds
    assert policy.posterior.log_det_gain == pytest.approx(gain, rel=1e-8)
    assert dimension - 1 <= statistical_dimension(gram, regularization=gamma) + 1e-9
    if isinstance(policy.posterior.kernel, kb.kernels.Scaled):
        assert lemma_2(kernel.features(np.array(played)), gram).holds
        assert dimension <= 2
