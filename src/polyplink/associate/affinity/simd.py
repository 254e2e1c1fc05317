"""Four float64 values in a SIMD register, for loops that numba does not vectorise.

numba vectorises loops over one array, but not four runs that advance together with separate sums
and maxima. A `Four` is a vector of four numbers, one per run; each function here compiles to about
one instruction. They can only be called from compiled code, and round like scalar operations.
"""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LANES = 4

Four = Any  # four floats in a register: a numba type, unknown to type checkers

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_INDEX = ir.IntType(32)


def _instruction(code: Callable[..., Any]) -> Callable[..., Any]:
    """A function for compiled code, which calls it without the first argument."""
    return cast("Callable[..., Any]", intrinsic(code))


class _FourType(types.Type):
    """The numba type of a Four."""


FOUR = _FourType("Four")


@register_model(_FourType)
class _FourModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)  # type: ignore[no-untyped-call]


def _of_two(emit: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> Callable[..., Any]:
    """A function for compiled code that combines two Fours into one."""

    def four(typing: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
            return emit(builder, *values)

        return FOUR(FOUR, FOUR), generate

    return _instruction(four)


plus = _of_two(lambda b, x, y: b.fadd(x, y))  # the sums x + y
minus = _of_two(lambda b, x, y: b.fsub(x, y))  # the differences x - y
times = _of_two(lambda b, x, y: b.fmul(x, y))  # the products x * y
# The larger and the smaller of x and y; y if they are equal or one is NaN.
larger = _of_two(lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y))
smaller = _of_two(lambda b, x, y: b.select(b.fcmp_ordered("<", x, y), x, y))


def _place(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
    """Pointer to number 4 * at of a flat array."""
    array = context.make_array(signature.args[0])(context, builder, values[0])
    number = builder.mul(values[1], ir.Constant(values[1].type, LANES))
    return builder.bitcast(builder.gep(array.data, [number]), _VECTOR.as_pointer())


@_instruction
def load(typing: Any, array: Any, at: Any) -> Any:
    """Numbers 4 * at to 4 * at + 3 of a flat array; `at` is unsigned and not checked."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(_place(context, builder, signature, values), align=8)

    return FOUR(array, types.uint64), generate


@_instruction
def store(typing: Any, array: Any, at: Any, four: Any) -> Any:
    """Write a Four to the place from which `load` reads."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store(values[2], _place(context, builder, signature, values), align=8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, FOUR), generate


@_instruction
def splat(typing: Any, number: Any) -> Any:
    """A Four of the same number."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        first = builder.insert_element(
            ir.Constant(_VECTOR, ir.Undefined), values[0], ir.Constant(_INDEX, 0)
        )
        nowhere = ir.Constant(_VECTOR, ir.Undefined)
        return builder.shuffle_vector(
            first, nowhere, ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES)
        )

    return FOUR(types.float64), generate


@_instruction
def where_equal(typing: Any, x: Any, y: Any, p: Any, q: Any) -> Any:
    """The numbers of p where x = y, of q elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.select(builder.fcmp_ordered("==", *values[:2]), *values[2:])

    return FOUR(FOUR, FOUR, FOUR, FOUR), generate


@_instruction
def any_above(typing: Any, x: Any, y: Any) -> Any:
    """Whether x > y in at least one of the four."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        bits = builder.bitcast(builder.fcmp_ordered(">", *values), ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(FOUR, FOUR), generate
