import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Linear
from kernelbandits.posterior import AutoPosterior, ExactPosterior, PrimalPosterior, posterior_factory


@pytest.mark.parametrize(
    ("name", "form"), [("auto", AutoPosterior), ("exact", ExactPosterior), ("primal", PrimalPosterior)]
)
def test_names_make_posteriors(name, form):
    posterior = posterior_factory(name)(Linear(), 0.25)

    assert isinstance(posterior, form)
    assert posterior.regularisation == 0.25


def test_a_function_is_taken_as_it_is():
    def own(kernel, regularisation):
        return ExactPosterior(kernel, regularisation=2 * regularisation)

    assert posterior_factory(own)(Linear(), 1.0).regularisation == 2.0


def test_another_name_is_refused():
    with pytest.raises(InvalidParameter, match="one of 'auto', 'exact', 'primal' or a function"):
        posterior_factory("best")
