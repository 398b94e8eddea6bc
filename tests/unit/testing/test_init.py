import subprocess
import sys


def test_without_pytest_the_extra_is_named():
    code = (
        "import sys\nsys.modules['pytest'] = None\n"
        "import kernelbandits as kb\n"
        "try: kb.testing\n"
        "except kb.errors.MissingExtra as error: print(error)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert 'need pytest, which is not installed. Add it with: pip install "kernelbandits[testing]"' in done.stdout
