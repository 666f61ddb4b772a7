"""`python -m tidemark peak train.db` runs the command `tidemark`, wherever it is installed."""
from __future__ import annotations

import os
import shutil
import sys


def command() -> str:
    """The command's path: in PATH, else in the folder bin beside the lib that holds this package."""
    found = shutil.which('tidemark')
    if found is None:
        here = os.path.dirname(os.path.abspath(__file__))
        beside = os.path.join(here, *[os.pardir] * 4, 'bin', 'tidemark')
        if os.access(beside, os.X_OK):
            found = os.path.normpath(beside)
    if found is None:
        sys.exit('python -m tidemark: there is no command `tidemark` in PATH; `make install` installs it')
    return found


if __name__ == '__main__':
    path = command()
    os.execv(path, [path, *sys.argv[1:]])
