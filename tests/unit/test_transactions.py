"""Models are made of parameters in American spelling, and the error for others names the right one."""

import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import ExactPosterior

KERNEL = Gaussian(length_scale=1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: kb.KernelUCB(KERNEL, regularisation=0.1),
        lambda: kb.LinUCB(regularisation=0.1),
        lambda: ExactPosterior(KERNEL, regularisation=0.1),
    ],
)
def test_a_parameter_in_british_spelling_is_answered_with_the_right_one(make):
    with pytest.raises(InvalidParameter, match=r"no parameter 'regularisation'. .* 'regularization'"):
        make()


def test_another_unknown_parameter_of_a_posterior_is_an_error_of_python():
    with pytest.raises(TypeError, match="unexpected keyword argument 'regularity'"):
        ExactPosterior(KERNEL, regularity=0.1)
