"""Loops over arrays; what they do to each element is decided in the layers below."""
