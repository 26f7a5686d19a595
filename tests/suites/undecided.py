"""The rewrites of the suites of which `prove` says less than it should so far, by what it would take.

The first of each kind is in the suite, the others are slow: all of a kind stop at the same place.
"""

UNDECIDED: dict[str, tuple[str, ...]] = {
    "a divisor that is not zero makes its own divisors and the arguments of its root not zero": (
        "normalisers: product and squares in one pass",
    ),
    "a term and its reciprocal cancel where it is not zero": ("elementwise: quotient of logarithms",),
    "a root times itself is its argument, under a reciprocal too": ("normalisers: mean of squares of a norm",),
    "the order of exponentials and of products by their factors' signs": (
        "reductions: minimum of exponentials",
        "reductions: negative scale turns a maximum",
    ),
    "truth values by cases": ("reductions: any by a count",),
    "what is known of a maximum or a sum from each of its elements": (
        "reductions: smallest position",
        "reductions: largest position",
        "reductions: deviation from the maximum",
    ),
    "case distinctions under a binder": ("optimisers: window as a difference of causal sums",),
    "exponentials of cases with minus infinity": ("blocks: prefix maximum of an exponential",),
    "an order of merged indices by their digits": (
        "blocks: prefix sums in blocks",
        "blocks: causal linear products in chunks",
    ),
}
