"""Random words as a pure function of (seed, stream, element index): the same on any thread, chunk, device or machine.

The generator is splitmix64 (Steele, Lea, Flood 2014) used as a counter: word j of a key is mix(key + (j + 1) * GOLDEN)
modulo 2**64. Element i takes the 32-bit half (i & 1) of word i >> 1, low half first; an operation that asks for k bits
takes the top k of those 32. Test words:

>>> [hex(element_word(make_key(7, 0), i)) for i in range(4)]
['0x55ffa86b', '0xf33dc6bd', '0xb412c5a9', '0xe1332a7d']
"""

from softfloat._jit import both
from softfloat.bits import u64

GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB
WORD_BITS = 32


@both
def mix(z):
    """The finaliser of splitmix64: a bijection of 64-bit words in which every bit depends on every bit."""
    z = u64((z ^ (z >> u64(30))) * u64(FIRST))
    z = u64((z ^ (z >> u64(27))) * u64(SECOND))
    return z ^ (z >> u64(31))


@both
def key_of_seed(seed):
    """What all keys of a seed are made from."""
    return mix(u64(u64(seed) + u64(GOLDEN)))


@both
def with_stream(first, stream):
    """The key of a stream; first : of `key_of_seed`."""
    return mix(u64(first + u64(u64(stream) * u64(SECOND))))


@both
def make_key(seed, stream):
    """The 64-bit key of a (seed, stream) pair; both lie in [0, 2**64)."""
    return with_stream(key_of_seed(seed), stream)


@both
def key_word(key, j):
    """The 64-bit word number j of a key."""
    return mix(u64(key + u64(u64(j + 1) * u64(GOLDEN))))


@both
def element_word(key, index):
    """The 32 random bits of the element with this global index, as an integer below 2**32."""
    word = key_word(key, index >> 1)
    if index & 1:
        return word >> u64(32)
    return word & u64(0xFFFFFFFF)
