"""Elementary functions in integers: the same bits in Python, compiled, and on any machine.

`functions` evaluates them to 124 bits with a stated error; `multiprecision` to as many bits as it takes.
"""
