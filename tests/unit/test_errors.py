import inspect

import pytest

from kernelbandits import errors

EXPECTED = {
    "InvalidParameter": ValueError,
    "InvalidContexts": ValueError,
    "InvalidReward": ValueError,
    "UnknownItem": LookupError,
    "NotPositiveSemidefinite": ValueError,
    "AlreadyLearnt": ValueError,
    "NotSupported": TypeError,
    "DamagedFile": ValueError,
    "NumericalError": ArithmeticError,
    "MissingExtra": ImportError,
}


@pytest.mark.parametrize(("name", "builtin"), EXPECTED.items())
def test_each_error_is_also_the_builtin_a_caller_would_expect(name, builtin):
    assert issubclass(getattr(errors, name), builtin)
    assert issubclass(getattr(errors, name), errors.KernelBanditError)


def test_every_class_is_public_and_drawn_in_the_tree():
    classes = {name for name, member in inspect.getmembers(errors, inspect.isclass)}

    assert classes | {"warn_user"} == set(errors.__all__)
    assert all(name in errors.__doc__ for name in classes)
