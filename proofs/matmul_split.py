"""A product over an axis of two parts is the sum of the products of the parts."""

import catdiag as cd


@cd.algorithm("a x+y, x+y c -> a c")
def left(A, B):
    return cd.einsum("a x+y, x+y c -> a c", A, B)


@cd.algorithm("a x+y, x+y c -> a c")
def right(A, B):
    (A1, A2), (B1, B2) = cd.split(A, "x+y"), cd.split(B, "x+y")
    return cd.einsum("a x, x c -> a c", A1, B1) + cd.einsum("a y, y c -> a c", A2, B2)
