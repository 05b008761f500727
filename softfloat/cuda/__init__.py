"""Arrays and kernels on CUDA devices, by numba-cuda: the extra `cuda12` or `cuda13`.

Loaded by the first use. Functions of the package take arrays of numba, CuPy and PyTorch that lie on a device and give
back their own kind, with the bits that the CPU gives.
"""
