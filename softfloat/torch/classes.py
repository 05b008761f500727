"""What an aten operation does to numbers: the class that decides whether and how its results are rounded.

PRODUCT : operands are rounded, every product and sum is emulated or runs in the carrier, the result is rounded.
ROUNDED : computed in the carrier, each floating result rounded once: pointwise operations, reductions, normalizations.
EXACT : its results are values of its operands, or constants: nothing to round.   VIEW : no new values at all.
CARRIER : stays in the carrier on purpose: losses, random draws, the gradient scaler.   QUERY : gives no tensor.
COMPOSED : made of other operations, which are seen one by one.   OPAQUE : arithmetic inside that nothing can see.
UNKNOWN : has no rule.
"""

import functools
import math

import torch

PRODUCT, ROUNDED, EXACT, VIEW, CARRIER, QUERY, COMPOSED, OPAQUE, UNKNOWN = (
    "product", "rounded", "exact", "view", "carrier", "query", "composed", "opaque", "unknown",
)  # fmt: skip

_NAMES = {
    PRODUCT: "mm addmm bmm baddbmm mv addmv dot vdot convolution convolution_backward",
    EXACT: """clone copy_ cat stack relu relu_ threshold_backward max_pool2d_with_indices
        embedding index index_select gather neg neg_ abs abs_ where zero_ zeros
        zeros_like ones ones_like empty empty_like empty_strided full full_like new_empty new_zeros new_ones new_full
        new_empty_strided fill_ arange _to_copy flip sort topk masked_fill masked_fill_ max min amax amin maximum
        minimum constant_pad_nd lift_fresh _unsafe_view scalar_tensor sign sgn roll clamp clamp_ clamp_min clamp_min_
        clamp_max tril triu repeat slice_backward select_backward _foreach_zero_ _foreach_neg _foreach_neg_
        _foreach_copy_ bernoulli_ bernoulli random_ randperm unsafe_split unsafe_chunk split_with_sizes_copy
        randint randint_like
        masked_select set_ resize_ eye one_hot kthvalue median nanmedian mode cummax cummin msort diag_embed
        diagonal_copy take index_fill index_fill_ index_copy index_copy_ scatter_ masked_scatter masked_scatter_
        reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
        im2col pixel_shuffle pixel_unshuffle channel_shuffle rot90 diagonal_scatter diagonal_backward
        _unique2 unique_dim unique_consecutive max_pool3d_with_indices adaptive_max_pool2d
        adaptive_max_pool3d _efficientzerotensor triu_ tril_
        resize_as_ hardtanh hardtanh_ hardtanh_backward as_strided_copy unfold_copy
        select_scatter slice_scatter scatter _pack_padded_sequence _pad_packed_sequence max_pool1d_with_indices""",
    ROUNDED: """_softmax _softmax_backward_data _safe_softmax native_batch_norm native_batch_norm_backward
        _native_batch_norm_legit _native_batch_norm_legit_no_training native_layer_norm native_layer_norm_backward
        native_group_norm native_group_norm_backward gelu_backward tanh_backward sigmoid_backward silu_backward
        elu_backward leaky_relu_backward softplus_backward native_dropout native_dropout_backward
        embedding_dense_backward avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
        std var std_mean var_mean index_put_ index_put _index_put_impl_ index_add_ index_add scatter_add scatter_add_
        cumsum prod linalg_vector_norm norm _prelu_kernel _prelu_kernel_backward lerp lerp_ addcmul addcmul_ addcdiv
        addcdiv_ sum mean upsample_nearest2d upsample_nearest2d_backward upsample_bilinear2d
        upsample_bilinear2d_backward _pack_padded_sequence_backward masked_scatter_backward
        _fused_rms_norm _fused_rms_norm_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward
        adaptive_max_pool2d_backward adaptive_max_pool3d_backward reflection_pad1d_backward reflection_pad2d_backward
        reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward
        scatter_reduce scatter_reduce_ index_reduce index_reduce_ unfold_backward col2im put put_ avg_pool3d
        avg_pool3d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward upsample_nearest1d
        upsample_nearest1d_backward upsample_linear1d upsample_linear1d_backward upsample_bicubic2d
        upsample_bicubic2d_backward upsample_nearest3d upsample_nearest3d_backward upsample_trilinear3d
        upsample_trilinear3d_backward grid_sampler_2d grid_sampler_2d_backward logcumsumexp renorm
        linalg_cross trace glu glu_backward hardswish hardswish_ hardswish_backward hardsigmoid_backward
        softshrink_backward hardshrink_backward mish_backward rrelu_with_noise rrelu_with_noise_
        rrelu_with_noise_backward _weight_norm_interface _weight_norm_interface_backward embedding_renorm_ addr addr_
        cumprod polar""",
    CARRIER: """_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ normal_ uniform_ randn rand randn_like
        rand_like normal histc exponential_ log_normal_ linspace logspace""",
    VIEW: """squeeze_ unsqueeze_ transpose_ t_ swapaxes_ swapdims_ as_strided_ detach_ _make_dual _fw_primal
        _reshape_alias""",
    QUERY: """_local_scalar_dense is_same_size equal item isfinite isnan isinf is_pinned allclose
        _has_same_storage_numel _is_zerotensor is_nonzero""",
}  # fmt: skip
# Losses run in the carrier; what they give back to the network is a gradient like any other, and is rounded.
LOSSES = frozenset(
    """_log_softmax nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward mse_loss
    binary_cross_entropy binary_cross_entropy_with_logits smooth_l1_loss huber_loss soft_margin_loss
    log_sigmoid_forward _ctc_loss multi_margin_loss multilabel_margin_loss_forward""".split()
)
LOSS_GRADIENTS = frozenset(
    """_log_softmax_backward_data mse_loss_backward binary_cross_entropy_backward smooth_l1_loss_backward
    huber_loss_backward soft_margin_loss_backward log_sigmoid_backward _ctc_loss_backward multi_margin_loss_backward
    multilabel_margin_loss_backward""".split()
)
# Of several results only the first is a tensor of the network; the others are statistics.
FIRST_ONLY = frozenset(
    """native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training native_layer_norm
    native_group_norm native_dropout _fused_rms_norm rrelu_with_noise""".split()
)
# Copies of whole tensors, which a look from outside (a snapshot of the weights) is made of.
COPIES = frozenset(("clone", "_to_copy"))
# Give numbers that are none of their operands', although nothing is computed.
_NEW = frozenset(
    """ones ones_like new_ones eye one_hot bernoulli bernoulli_ random_ randperm randint randint_like arange sign sgn
    empty_like new_empty resize_ set_""".split()
)
_MIRRORS = ("neg", "neg_", "abs", "abs_", "_foreach_neg", "_foreach_neg_")
_KIND_OF = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_KIND_OF.update(dict.fromkeys(LOSSES, CARRIER), **dict.fromkeys(LOSS_GRADIENTS, ROUNDED))

_HARMLESS = (0, math.inf, -math.inf)
REMEDIES = {
    "_scaled_dot_product": "use torch.nn.attention.sdpa_kernel(SDPBackend.MATH)",
    "_flash_attention": "use torch.nn.attention.sdpa_kernel(SDPBackend.MATH)",
    "_efficient_attention": "use torch.nn.attention.sdpa_kernel(SDPBackend.MATH)",
    "_fused_": "build the optimizer with fused=False",
    "mkldnn_rnn_layer": "use torch.backends.mkldnn.flags(enabled=False)",
    "_cudnn_rnn": "use torch.backends.cudnn.flags(enabled=False)",
    "_thnn_fused": "move the recurrent layer to the CPU",
    "_native_multi_head_attention": "use torch.backends.mha.set_fastpath_enabled(False)",
    "_transformer_encoder_layer_fwd": "use torch.backends.mha.set_fastpath_enabled(False)",
}


@functools.cache
def base_name(func):
    """The name of an operation without its namespace and overload: "addmm" of aten.addmm.default."""
    return func._schema.name.split("::")[1]


@functools.cache
def written(func):
    """The places of the arguments that an operation writes to, each with its name."""
    arguments = enumerate(func._schema.arguments)
    return tuple(
        (i, a.name) for i, a in arguments if a.alias_info is not None and a.alias_info.is_write
    )


def tensors_in(values):
    """All tensors among arguments, lists included."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, torch.Tensor):
                    yield item


@functools.cache
def _fresh(func):
    """The places of the results of an operation that share no memory with its arguments."""
    return tuple(i for i, r in enumerate(func._schema.returns) if r.alias_info is None)


def results_of(func, found, args, kwargs):
    """What an operation gave: the tensors that it returned (None among them), then those that it wrote to."""
    places = written(func)
    returned = list(found) if isinstance(found, (list, tuple)) else [found]
    if not places:
        return (
            [r for r in returned if r is None or isinstance(r, torch.Tensor)]
            if found is not None
            else []
        )
    values = [returned[i] for i in _fresh(func) if i < len(returned)]
    values += [args[i] if i < len(args) else kwargs.get(name) for i, name in places]
    return list(tensors_in(values))


@functools.cache
def kind_of(func):
    """The class of an operation."""
    name = base_name(func)
    if func.namespace == "profiler":
        return QUERY
    if func.namespace == "aten" and name in _KIND_OF:
        reduces = any(a.name == "reduce" for a in func._schema.arguments)  # scatter, or a sum
        return ROUNDED if reduces else _KIND_OF[name]
    if name == "_scaled_dot_product_attention_math":
        return COMPOSED
    if any(name.startswith(start) for start in REMEDIES):
        return OPAQUE
    returns = func._schema.returns
    if func.is_view or (
        returns and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    ):
        return VIEW
    if func.namespace == "aten" and (
        name.startswith("_foreach_") or _is_pointwise(func) or _is_pointwise(_out_of_place(name))
    ):
        return ROUNDED
    if func._can_decompose():
        return COMPOSED
    return UNKNOWN


def _is_pointwise(func):
    return func is not None and bool({torch.Tag.pointwise, torch.Tag.reduction} & set(func.tags))


def _out_of_place(name):
    """An overload of the operation whose in-place form has this name, or None."""
    packet = getattr(torch.ops.aten, name[:-1], None) if name.endswith("_") else None
    return None if packet is None else getattr(packet, packet.overloads()[0])


def has_rounding(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


@functools.cache
def _numbers(func):
    """The places of the arguments of an operation that are plain numbers, each with its name."""
    arguments = enumerate(func._schema.arguments)
    return tuple((i, a.name) for i, a in arguments if "number" in str(a.type))


def brings_numbers(func, args, kwargs, fmt):
    """Whether an EXACT operation may give numbers that are not of the format of its operands."""
    name = base_name(func)
    if name in _NEW or name in _MIRRORS and getattr(fmt, "is_fixed", False):
        return True
    if name.endswith("_backward"):  # thresholds, which choose and do not appear
        return False
    given = (args[i] if i < len(args) else kwargs.get(key) for i, key in _numbers(func))
    return any(number is not None and number not in _HARMLESS for number in given)


def remedy(func):
    """What to do about an opaque operation."""
    name = base_name(func)
    return next(text for start, text in REMEDIES.items() if name.startswith(start))


_met: dict = {}


def kind_and_name(func):
    """(class, name) of an operation; by its identity, which is found faster than its hash."""
    found = _met.get(id(func))
    if found is None:
        found = _met[id(func)] = (kind_of(func), base_name(func)), func  # which so is never freed
    return found[0]
