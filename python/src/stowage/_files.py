"""Files that appear whole or not at all, as the library's own do."""
from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from typing import IO, Any, Iterator, Union


@contextlib.contextmanager
def whole_file(path: Union[str, "os.PathLike[str]"], mode: str = "wb", **more: Any) -> Iterator[IO[Any]]:
    """Opens a file that is written aside and takes the place of ``path`` at the end; after an exception nothing has changed.

    Links are followed, and what is there keeps its permissions. A pipe or a device is written directly.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # as it is named: links such as /dev/stdout may lead to what has no path
        with open(path, mode, **more) as opened:
            yield opened
        return
    target = os.path.realpath(os.fspath(path))
    exists = os.path.exists(target)
    if exists and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    aside = f"{target}.{os.getpid():x}{threading.get_ident():x}"
    try:
        with open(aside, mode, **more) as opened:
            yield opened
        if exists:
            shutil.copymode(target, aside)
        os.replace(aside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
