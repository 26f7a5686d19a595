"""The derivatives of sigmoid and tanh are those that the chain rule gives of their definitions by exp."""

import catdiag as cd

SIGMOID = cd.algorithm("x", name="sigmoid")(lambda a: cd.nn.sigmoid(a))
TANH = cd.algorithm("x", name="tanh")(lambda a: cd.tanh(a))
BY_EXP = cd.algorithm("x", name="by_exp")(lambda a: 1 / (1 + cd.exp(-a)))
TANH_BY_EXP = cd.algorithm("x", name="tanh_by_exp")(lambda a: 1 - 2 / (cd.exp(2 * a) + 1))
left = SIGMOID.grad() @ TANH.grad()
right = BY_EXP.grad() @ TANH_BY_EXP.grad()
