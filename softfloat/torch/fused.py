"""Fused kernels switched off, so that torch runs attention and recurrent layers as the operations they are made of.

torch's switches are of the process, while blocks may run in several threads: the first block to come switches, the last
to go switches back.
"""

import contextlib
import threading

import torch


class FusedPaths:
    """`with fused_paths.opened():` in each block."""

    def __init__(self):
        self._lock = threading.Lock()
        self._blocks = 0
        self._stack = contextlib.ExitStack()

    @contextlib.contextmanager
    def opened(self):
        with self._lock:
            self._blocks += 1
            if self._blocks == 1:
                self._switch()
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if not self._blocks:
                    self._stack.close()

    def _switch(self):
        backend = torch.nn.attention.SDPBackend.MATH
        self._stack.enter_context(torch.nn.attention.sdpa_kernel(backend))
        self._stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
        torch._C._set_mkldnn_enabled(False)
        mha = torch.backends.mha
        self._stack.callback(mha.set_fastpath_enabled, mha.get_fastpath_enabled())
        mha.set_fastpath_enabled(False)


fused_paths = FusedPaths()
