"""Cross-entropy of a softmax is log-sum-exp less the expected logit."""

import catdiag as cd


@cd.algorithm("q x, q x -> q")
def left(X, target):
    return -cd.sum(target * cd.log(cd.softmax(X, "x")), "x")


@cd.algorithm("q x, q x -> q")
def right(X, target):
    return cd.log(cd.sum(cd.exp(X), "x")) * cd.sum(target, "x") - cd.sum(target * X, "x")
