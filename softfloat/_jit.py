"""The package's compiler: numba with fixed floating-point rules and a disk cache that no edit can make stale.

numba keys its cache by the file of the compiled function only, so an edit in a helper leaves the callers' machine code
behind. Here the cache lives in a folder named by a hash of every source file of the package: another source, another
folder. Where no folder can be written, everything still works and one warning says that nothing is cached.
"""

import functools
import hashlib
import os
import pathlib
import pickle
import shutil
import tempfile
import warnings

import numba
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.serialize import dumps
from numba.extending import overload
from numba.misc.appdirs import AppDirs

PACKAGE = pathlib.Path(__file__).resolve().parent
KEPT_CACHES = 4  # folders of earlier sources that stay beside the current one


class CacheWarning(UserWarning):
    """Compiled code cannot be kept between processes."""


@functools.cache
def source_hash():
    """Hex digest over the names and contents of all modules of the package."""
    digest = hashlib.blake2b(digest_size=10)
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _candidate_roots():
    if config.CACHE_DIR:
        return [pathlib.Path(config.CACHE_DIR)]
    user = AppDirs(appname="softfloat-numba", appauthor=False).user_cache_dir
    return [PACKAGE / "__pycache__", pathlib.Path(user)]


def _prune(root, current):
    others = [p for p in root.glob("softfloat-*") if p.is_dir() and p != current]
    others.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for path in others[KEPT_CACHES:]:
        shutil.rmtree(path, ignore_errors=True)


@functools.cache
def cache_folder():
    """The writable folder for compiled code, or None; warns once if there is none."""
    tried = []
    for root in _candidate_roots():
        folder = root / f"softfloat-{source_hash()}"
        try:
            fresh = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            if fresh:
                _prune(root, folder)
            return folder
        except OSError:
            tried.append(str(root))
    warnings.warn(
        "softfloat cannot write compiled code to "
        + " or ".join(tried)
        + ": it compiles anew in every process. Set NUMBA_CACHE_DIR to a writable folder to keep it.",
        CacheWarning,
        stacklevel=3,
    )
    return None


class _SourceLocator(_CacheLocator):
    def __init__(self, function, path):
        self._line = function.__code__.co_firstlineno
        self._py_file = path
        relative = pathlib.Path(path).resolve().relative_to(PACKAGE)
        self._folder = os.path.join(cache_folder(), *relative.parent.parts)

    @classmethod
    def from_function(cls, function, path):
        return cls(function, path)

    def get_cache_path(self):
        return self._folder

    def get_source_stamp(self):
        return source_hash()

    def get_disambiguator(self):
        return str(self._line)


class _SourceCacheImpl(CompileResultCacheImpl):
    _locator_classes = [_SourceLocator]


def _described(cell):
    """A closure variable as something that is the same in every process."""
    function = getattr(cell, "py_func", None)
    if function is None:
        return cell
    return function.__module__, function.__qualname__, _closure(function)


def _closure(function):
    return tuple(_described(cell.cell_contents) for cell in function.__closure__ or ())


class _SourceCache(FunctionCache):
    """One file per function, closure and signature, written whole or not at all.

    numba keeps one index per function and numbers the files: two processes that compile at once can then exchange
    each other's code.
    """

    _impl_class = _SourceCacheImpl

    def _key(self, signature, codegen):
        return repr((signature, codegen.magic_tuple(), _closure(self._py_func)))

    def _path(self, key):
        digest = hashlib.blake2b(key.encode(), digest_size=10).hexdigest()
        return pathlib.Path(self._cache_path, f"{self._impl.filename_base}-{digest}.nbc")

    def _load_overload(self, signature, target):
        key = self._key(signature, target.codegen())
        try:
            stored, data = pickle.loads(self._path(key).read_bytes())
        except FileNotFoundError:
            return None
        return self._impl.rebuild(target, data) if stored == key else None

    def _save_overload(self, signature, data):
        if not self._impl.check_cachable(data):
            return
        self._impl.locator.ensure_cache_path()
        key = self._key(signature, data.codegen)
        path = self._path(key)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(dumps((key, self._impl.reduce(data))))
        os.replace(file.name, path)


class _LazyCache:
    """Opens the disk cache at the first compilation, so that import touches no file; a bad file counts as a miss."""

    def __init__(self, function):
        self._function = function
        self._opened = None

    def _open(self):
        if self._opened is None:
            try:
                self._opened = _SourceCache(self._function) if cache_folder() else False
            except (
                OSError,
                RuntimeError,
                ValueError,
            ):  # a function outside the package has no place here
                self._opened = False
        return self._opened

    @property
    def cache_path(self):
        opened = self._open()
        return opened.cache_path if opened else None

    def load_overload(self, signature, target):
        opened = self._open()
        if not opened:
            return None
        try:
            return opened.load_overload(signature, target)
        except Exception:  # a truncated or foreign file: compile instead
            return None

    def save_overload(self, signature, data):
        opened = self._open()
        if opened:
            try:
                opened.save_overload(signature, data)
            except OSError:
                self._opened = False

    def enable(self):
        pass

    def disable(self):
        self._opened = False

    def flush(self):
        pass


def jit(function=None, *, inline=False):
    """Compile lazily with IEEE semantics: no fastmath, no Python exceptions for x/0, GIL released, cached on disk.

    inline: make LLVM inline the function into each caller, so that constant arguments fold away.
    """
    if function is None:
        return functools.partial(jit, inline=inline)
    # fastmath is pinned: a caller's flags would otherwise reach into inlined arithmetic.
    dispatcher = numba.njit(
        function, nogil=True, error_model="numpy", fastmath=False, forceinline=inline
    )
    if hasattr(dispatcher, "_cache"):  # not under NUMBA_DISABLE_JIT
        dispatcher._cache = _LazyCache(function)
    return dispatcher


def both(function=None, *, inline=True):
    """Let one plain function run in Python and be called, by the same name, from compiled code (CPU or CUDA).

    inline: compiled callers inline it, so that constant arguments fold away; False for long functions of many callers.
    """
    if function is None:
        return functools.partial(both, inline=inline)
    options = {"error_model": "numpy", "fastmath": False, "forceinline": inline, "nogil": True}

    def choose(*arguments):
        return function

    overload(function, jit_options=options, strict=False, target="generic")(choose)
    return function
