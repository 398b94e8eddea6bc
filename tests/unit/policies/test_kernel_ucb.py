import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter


def test_engines_can_be_left_out():
    rng = np.random.default_rng(4)
    policies = [
        kb.KernelUCB(kb.kernels.Gaussian(length_scale=0.4), regularisation=0.3, exploration=0.5, engine=engine)
        for engine in ("auto", "exhaustive")
    ]
    for _ in range(40):
        contexts = rng.uniform(size=(30, 3))
        decisions = [policy.choose(contexts) for policy in policies]
        assert decisions[0].action == decisions[1].action
        for policy, decision in zip(policies, decisions, strict=True):
            policy.learn(decision, float(decision.context[0]))

    assert policies[0].last_selection.engine == "screened"
    assert policies[1].last_selection.engine == "exhaustive"
    assert policies[0].fingerprint == policies[1].fingerprint
    with pytest.raises(InvalidParameter, match="exhaustive"):
        kb.KernelUCB(kb.kernels.Linear(), engine="fast")
