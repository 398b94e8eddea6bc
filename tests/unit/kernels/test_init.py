import kernelbandits.kernels as kernels


def test_every_public_name_can_be_imported_and_is_listed_in_order():
    assert kernels.__all__ == sorted(kernels.__all__)
    assert all(hasattr(kernels, name) for name in kernels.__all__)
