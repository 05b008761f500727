"""Optional packages, imported on first use, with an error that says how to install them."""

import importlib


def need(module, what, extra, package=None):
    """The imported module, or an ImportError such as "softfloat train needs rich: pip install".

    what : who needs it.   extra : the extra that brings it.   package : its name, if another.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != top:
            raise  # the package is there and lacks something itself: its message is the better one
        raise ImportError(
            f"{what} needs {package or top}: pip install 'softfloat-numba[{extra}]'"
        ) from error
