"""numba types of the package: formats and roundings as arguments, numbers and arrays that carry their format."""
