"""The socket of the server, found in the same way as by the command line."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

# Maximum length in bytes of a Unix socket's path on Linux (unix(7)), and the length of the longest
# file name in the socket's directory.
SOCKET_PATH_BYTES_MAX = 107
NEIGHBOUR_BYTES_MAX = 20


def default_socket() -> Path:
    """The socket of the default data directory's server, or where a server would listen if none answers there.

    That is `$XDG_RUNTIME_DIR/vctx/vctx.sock`, or a short path of the user's own when that is unset or too long.
    """
    data = _data_dir(os.environ)
    if data is not None and _answers(data / "server.sock"):
        return data / "server.sock"
    return _runtime_dir(os.environ, _user_id()) / "vctx.sock"


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as trial:
        try:
            trial.connect(os.fspath(path))
        except OSError:
            return False
    return True


def _data_dir(environment: Mapping[str, str]) -> Path | None:
    for name, below in (("XDG_STATE_HOME", "vctx"), ("HOME", ".local/state/vctx")):
        stated = environment.get(name, "")
        if os.path.isabs(stated):
            return Path(stated) / below
    return None


def _runtime_dir(environment: Mapping[str, str], user: int) -> Path:
    stated = environment.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(stated):
        directory = Path(stated) / "vctx"
        if len(os.fsencode(directory)) + NEIGHBOUR_BYTES_MAX <= SOCKET_PATH_BYTES_MAX:
            return directory
    own = Path(f"/run/user/{user}")
    return own / "vctx" if own.is_dir() else Path(f"/tmp/vctx-{user}")


def _user_id() -> int:
    """The user of this process: the owner of `/proc/self`, or of the home directory where there is no `/proc`."""
    for path in ("/proc/self", os.environ.get("HOME", "")):
        try:
            return os.stat(path).st_uid
        except OSError:
            continue
    return 0
