"""The effects of the operations of StableHLO modules: the reviewed table behind the judgement of a module.

The operations are those of the StableHLO specification 1.13
(https://openxla.org/stablehlo/spec). What is not listed here is refused.
"""

from __future__ import annotations

import re

from .effects import Effect
from .inspection import Support

_PURE = re.compile(
    r"abs|add|after_all|and|atan2|batch_norm_grad|batch_norm_inference|batch_norm_training|"
    r"bitcast_convert|broadcast|broadcast_in_dim|case|cbrt|ceil|cholesky|clamp|compare|"
    r"complex|composite|concatenate|constant|convert|convolution|cosine|count_leading_zeros|"
    r"create_token|divide|dot|dot_general|dynamic_broadcast_in_dim|dynamic_conv|"
    r"dynamic_gather|dynamic_iota|dynamic_pad|dynamic_reshape|dynamic_slice|"
    r"dynamic_update_slice|einsum|exponential|exponential_minus_one|fft|floor|gather|"
    r"get_dimension_size|get_tuple_element|if|imag|iota|is_finite|log|log_plus_one|logistic|"
    r"map|maximum|minimum|multiply|negate|not|optimization_barrier|or|pad|popcnt|power|real|"
    r"real_dynamic_slice|reduce|reduce_precision|reduce_window|remainder|reshape|return|"
    r"reverse|rng|rng_bit_generator|round_nearest_afz|round_nearest_even|rsqrt|scatter|select|"
    r"select_and_scatter|set_dimension_size|shift_left|shift_right_arithmetic|"
    r"shift_right_logical|sign|sine|slice|sort|sqrt|subtract|tan|tanh|torch_index_select|"
    r"transpose|triangular_solve|tuple|unary_einsum|uniform_dequantize|uniform_quantize|while|"
    r"xor"
)
_CALLS = frozenset({"func.call", "func.return"})
_EFFECTS: tuple[tuple[Effect, str], ...] = (
    ("network", r"all_\w+|collective_\w+|reduce_scatter|cross-replica-sum|partition_id|replica_id"),
    ("device", r"infeed|outfeed|send|recv"),
)

_HARMLESS_TARGETS = frozenset(
    {
        # Annotations, which do nothing on one device.
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"),
        # What jax.export writes for symbolic dimensions: checked while the module is compiled.
        "shape_assertion",
        "stablehlo.shape_refinement_operand_wrapper",
        # Operations of other dialects in the form of custom calls.
        *("mhlo.topk", "mhlo.erf", "mhlo.tan"),
    }
)
_PYTHON_TARGETS = re.compile(r"xla_(ffi_)?(partitioned_)?python\w*callback|\w*CustomCallPy\w*")
CALLS_TENSORFLOW = "tf.call_tf_function"
"""The custom call by which a module in a SavedModel runs a function of TensorFlow."""


def describe(op: str, target: str | None) -> tuple[Support, Effect]:
    """Whether XLA compiles an operation, and what it does beside computing.

    Args:
        op: With its dialect: `stablehlo.add`.
        target: Of a custom call.
    """
    dialect, _, name = op.partition(".")
    if op == "stablehlo.custom_call":
        if target in _HARMLESS_TARGETS:
            return "compiled", ""
        python = target is not None and _PYTHON_TARGETS.fullmatch(target)
        return "unsupported", "python" if python else "custom"
    if dialect == "stablehlo":
        if _PURE.fullmatch(name):
            return "compiled", ""
        for effect, pattern in _EFFECTS:
            if re.fullmatch(pattern, name):
                return "unsupported", effect
    # CHLO's operations are functions of numbers (https://openxla.org/stablehlo/generated/chlo).
    if dialect == "chlo" or op in _CALLS:
        return "compiled", ""
    return "unsupported", "unreviewed"
