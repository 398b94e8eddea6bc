import pytest

from kernelbandits._files import locked
from kernelbandits.errors import FolderInUse


def test_one_at_a_time_holds_the_lock(tmp_path):
    with locked(tmp_path) as is_held:
        assert is_held
        with pytest.raises(FolderInUse, match="Another run"), locked(tmp_path):
            pass
    with locked(tmp_path) as is_held:
        assert is_held
