"""A service in a process of its own, for tests that kill it: python service_process.py FOLDER POINT COUNT."""

import os
import signal
import sys
import threading
from pathlib import Path

from kernelbandits.service.serve import serve
from kernelbandits.service.settings import Settings


def main():
    folder, point, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    seen = 0
    lock = threading.Lock()

    def at(name):
        nonlocal seen
        if name == point:
            with lock:
                seen += 1
                if seen == count:
                    os.kill(os.getpid(), signal.SIGKILL)

    settings = Settings(data=folder, port=int(sys.argv[4]) if len(sys.argv) > 4 else 0, snapshot_rows=40)
    sys.exit(serve(settings, say=lambda text: print(text, flush=True), at=at))


if __name__ == "__main__":
    main()
