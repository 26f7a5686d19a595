"""Reading files that may be anybody's, and writing files whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

# The letters of a file's own name that its temporary name repeats: a name may have 255 bytes, a letter four of them.
_REPEATED = 40
_DEVICES = ("/dev/", "/proc/")


def read_whole(path: str | Path, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes.

    Raises OSError for what cannot be read, is larger, or is no regular file: a pipe would be waited for, and a device
    may have no end.
    """
    # Without waiting for somebody who writes: what is opened may turn out to be a pipe.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, expected a regular file", str(path))
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Writes text or bytes to a file by way of a temporary file beside it, so that no half-written file is ever left.

    A link stays one, and the file that it leads to is replaced; the file that takes its place has its permissions. A
    pipe or a device (`/dev/stdout`, say) is written to as it is. Raises OSError where the folder does not exist or
    cannot be written, where there is a file that may not be written, or where the disk is full.
    """
    data = content.encode() if isinstance(content, str) else content
    if _in_place(path):
        # Unbuffered, so that what cannot be written is heard of here.
        with open(path, "wb", buffering=0) as stream:
            rest = memoryview(data)
            while rest:
                rest = rest[stream.write(rest) :]
        return
    require_writable(path)
    target = Path(os.path.realpath(path) if os.path.islink(path) else path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:_REPEATED]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, stat.S_IMODE(os.stat(target).st_mode) if target.exists() else 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def require_writable(path: str | Path) -> None:
    """Raises PermissionError for a file that may not be written: by this process, or by its mode by anybody.

    Replacing a file takes leave to write its folder only: one that was made read-only would be lost. What the superuser
    may do anyway is no reason to do it to a file that nobody was meant to write.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not os.access(path, os.W_OK) or not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EACCES, "it is there and not writable", str(path))


def _in_place(path: str | Path) -> bool:
    """Whether a name stands for something that must not be put another file in the place of."""
    if str(os.path.abspath(path)).startswith(_DEVICES):
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value
