# ruff: noqa: E501
"""Each thing that the checker does not accept, with the words in which it says so: no check is there for nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kernel_programs import GOOD_STEP, Json, apply, array, certificate, const, program, reduce, sum_fold, tiles

from catdiag.kernel.checker import Checker
from catdiag.kernel.semantics import evaluate, inputs_of
from catdiag.kernel.terms import ONE, ZERO, KernelError, fn, idx, parse_term, read, size_term, substitute, term_data
from catdiag.kernel.well_formed import well_formed
from catdiag.prover.proof_search import find

A, X, XY = array("A"), array("A", "x"), array("A", "x", "y")
SUM = program([X], [reduce("sum", "x", 0)], 1)
SAME = program([A], [], 0)


def ask(hypotheses: Any, goal: Any) -> bool:
    return "%" not in str(goal) and not hypotheses


def view(args: list[int], axes: list[Any], *reads: Any) -> Json:
    return {"op": "view", "args": args, "axes": axes, "reads": [{"at": at, "where": where} for at, where in reads]}


def one(node: Any, *inputs: Json) -> Json:
    return program(list(inputs or (X,)), [node], len(inputs or (X,)))


FORMS = {
    "no program": ([], "a program"),
    "a program with more": ({**SUM, "more": 1}, "a program"),
    "a program without nodes": ({k: v for k, v in SUM.items() if k != "nodes"}, "a program"),
    "a title that is no text": ({**SUM, "title": 1}, "a name as title"),
    "inputs that are no list": ({**SUM, "inputs": {}}, "a list of inputs"),
    "an input that is a text": ({**SUM, "inputs": ["A"]}, "an input"),
    "an input with more": ({**SUM, "inputs": [{**X, "more": 1}]}, "an input"),
    "an input without a name": ({**SUM, "inputs": [{**X, "name": ""}]}, "an identifier"),
    "an input with a name of the kernel's": ({**SUM, "inputs": [{**X, "name": "%A"}]}, "an identifier"),
    "an input whose name is no text": ({**SUM, "inputs": [{**X, "name": 3}]}, "an identifier"),
    "axes in a text": ({**SUM, "inputs": [{**X, "axes": "xy"}]}, "a list of axes"),
    "an axis of three": ({**SUM, "inputs": [{**X, "axes": [["x", "x", "x"]]}]}, "a pair"),
    "an axis that is a text of two letters": ({**SUM, "inputs": [{**X, "axes": ["xy"]}]}, "a pair"),
    "an unknown element type": ({**SUM, "inputs": [{**X, "element": "complex"}]}, "one of real"),
    "a node that is a list": (one([]), "a node"),
    "a node without an operation": (one({"args": [0]}), "a node"),
    "an unknown box": (one({"op": "sort", "args": [0]}), "no box 'sort'"),
    "a node with more": (one({**apply("exp", 0), "more": 1}), "a map with fn, args"),
    "a node with less": (one({"op": "map", "fn": "exp"}), "a map with fn, args"),
    "wires in a text": (one({"op": "map", "fn": "exp", "args": "0"}), "a list of wires"),
    "a wire that is a truth value": (one(apply("exp", False)), "a wire"),
    "a wire below 0": (one(apply("exp", -1)), "a wire"),
    "a number that is a float": (one({"op": "const", "value": 0.5}), "a number as text"),
    "a number with a point": (one(const("0.5")), "a number as text"),
    "a number over 0": (one(const("1/0")), "a divisor other than 0"),
    "an output of three": ({**SUM, "outputs": [[1, "real", 0]]}, "a pair"),
    "an output of no wire": ({**SUM, "outputs": [["1", "real"]]}, "a wire"),
    "an output of no type": ({**SUM, "outputs": [[1, "float"]]}, "one of real"),
    "one tile size twice for an axis": (
        one({"op": "group", "tiles": [["x", "g"], ["x", "h"]], "args": [0], "body": SUM}), "different names"),
    "tiles in a text": (one({"op": "group", "tiles": "xg", "args": [0], "body": SUM}), "a list of pairs of names"),
    "a body that is none": (one({"op": "group", "tiles": [["x", "g"]], "args": [0], "body": []}), "a program"),
    "reads in an object": (one({"op": "view", "args": [0], "axes": [], "reads": {}}), "a list of reads"),
    "a read with more": (
        one({"op": "view", "args": [0], "axes": [], "reads": [{"at": {}, "where": [], "x": 0}]}), "a read with at"),
    "expressions in a list": (one(view([0], [], ([], []))), "expressions by axis"),
    "an expression that is a float": (one(view([0], [], ({"x": 0.5}, []))), "an expression of indices"),
    "an empty expression": (one(view([0], [], ({"x": []}, []))), "an expression of indices"),
    "a difference in an expression": (one(view([0], [], ({"x": ["-", 2, 1]}, []))), "an expression of indices"),
    "a sum of one in an expression": (one(view([0], [], ({"x": ["+", 2]}, []))), "an expression of indices"),
    "an index of two axes": (one(view([0], [], ({"x": ["i", "y", "z"]}, []))), "a pair"),
    "conditions in a text": (one(view([0], [], ({"x": 0}, "lt"))), "a list of conditions"),
    "a condition of another kind": (one(view([0], [], ({"x": 0}, [["ne", 0, 1]]))), "a comparison"),
    "a condition of four": (one(view([0], [], ({"x": 0}, [["lt", 0, 1, 2]]))), "a comparison"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_refused(name: str) -> None:
    data, says = FORMS[name]
    with pytest.raises(KernelError, match=says):
        well_formed(data)


def meaning_of(made: Json) -> None:
    well_formed(made)
    evaluate(made, inputs_of(made, {}), {}, lambda *_: None)


MEANINGS = {
    "a wire that is not made yet": (one(apply("exp", 5)), "no wire 5"),
    "an output that is not made": (program([X], [], 3), "no wire 3"),
    "one axis of two sizes": (one(apply("add", 0, 1), X, array("B", "x", x="n")), "axis 'x' has sizes"),
    "an axis twice": (program([array("A", "x", "x")], [], 0), "an axis occurs twice"),
    "a reduction over no axis of its array": (one(reduce("sum", "y", 0)), "nothing to reduce over axis 'y'"),
    "an unknown monoid": (one(reduce("median", "x", 0)), "no monoid 'median'"),
    "an unknown function": (one(apply("sinh", 0)), "no scalar function 'sinh'"),
    "a function of too many": (one(apply("exp", 0, 0)), "no scalar function 'exp' of 2"),
    "a name of no function": (one(apply("apply:", 0)), "an identifier"),
    "a view with no reads": (one(view([0], [["x", "x"]])), "with 0 reads"),
    "a view with more reads than arrays": (one(view([0], [["x", "x"]], ({}, [["lt", 0, 1]]), ({}, []))), "with 2 reads"),
    "a view that may read nothing": (one(view([0], [["x", "x"]], ({}, [["lt", 0, 1]]))), "not everywhere"),
    "a view at an axis that is not there": (one(view([0], [["x", "x"]], ({"y": 0}, []))), "does not give"),
    "a view that loses an axis": (one(view([0], [], ({}, []))), "does not give"),
    "a view that changes a size": (one(view([0], [["x", "n"]], ({}, []))), "does not give"),
    "a view at an index of nothing": (one(view([0], [["y", "y"]], ({"x": ["i", "z"]}, []))), "no axis 'z'"),
    "a view at an array that it reads": (one(view([0], [["y", "y"]], ({"x": ["w", 0]}, []))), "no index array 0"),
    "a view at no array": (one(view([0], [["y", "y"]], ({"x": ["w", 1]}, []))), "no index array 1"),
    "a view at an array with another axis": (
        one(view([0, 1], [["y", "y"]], ({"x": ["w", 1]}, [])), X, array("I", "z")), "no index array 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANINGS)
def test_a_meaning_is_refused(name: str) -> None:
    made, says = MEANINGS[name]
    with pytest.raises(KernelError, match=says):
        meaning_of(made)


def test_inputs_are_those_declared() -> None:
    made = program([X], [], 0)
    with pytest.raises(KernelError, match="has 1 inputs, 0 were given"):
        evaluate(made, [], {}, lambda *_: None)
    with pytest.raises(KernelError, match="input A has axes"):
        evaluate(made, inputs_of(program([array("A", "y")], [], 0), {}), {}, lambda *_: None)
    truths = program([array("A", "x", element="bool")], [], 0)
    with pytest.raises(KernelError, match="takes truth values"):
        evaluate(truths, inputs_of(made, {}), {}, lambda *_: None)


FOLD = sum_fold(GOOD_STEP, 3)
# Reads an array whose axis has the size of a block and is not cut.
UNCUT = {
    **FOLD,
    "args": [0, 1],
    "state": {**FOLD["state"], "inputs": [*FOLD["state"]["inputs"], array("R", "y", y="s_x")]},
}
LOOP = program([X], [FOLD], 1)
GROUP = tiles([array("A", "x", x="g_x")], [apply("exp", 0)], 1, [0], "x")
GROUPS = program([X], [GROUP], 1)


def confirms(hypotheses: Any, goal: Any) -> bool:
    return "%" not in str(goal)


PROVED: Json = find(confirms, certificate(SUM, LOOP)["statement"])["proof"]["folds"][0]


def renamed(node: Json, old: str, new: str) -> Json:
    made: Json = json.loads(json.dumps(node).replace(json.dumps(old), json.dumps(new)))
    return made


def test_the_good_ones_are_accepted() -> None:
    Checker(confirms).check(certificate(SUM, LOOP, {"folds": [PROVED]}))
    Checker(confirms).check(certificate(program([X], [apply("exp", 0)], 1), GROUPS))


def with_body(node: Json, body: str, **changes: Any) -> Json:
    return {**node, body: {**node[body], **changes}}


FRESH = certificate(SAME, SAME)
CHECKS: dict[str, tuple[Json, str]] = {
    "another format": ({**FRESH, "format": "certificate"}, "not a catdiag-certificate"),
    "another version": ({**FRESH, "version": 99}, "of version"),
    "a field more": ({**FRESH, "trust": True}, "unknown fields"),
    "what it says is no text": ({**FRESH, "about": [1]}, "a list of lines"),
    "what it says is no list": ({**FRESH, "about": "f = g"}, "a list of lines"),
    "a statement with more": ({**FRESH, "statement": {**FRESH["statement"], "but": 1}}, "unknown fields"),
    "assumptions in an object": ({**FRESH, "statement": {**FRESH["statement"], "assume": {}}}, "no list"),
    "a proof with more": ({**FRESH, "proof": {"trust": {}}}, "unknown fields"),
    "an assumption of another kind": (certificate(SAME, SAME, {}, (("ne", 1, 2),)), "not an assumption"),
    "an assumption of two": (certificate(SAME, SAME, {}, (("lt", 1),)), "not an assumption"),
    "an assumption of no sizes": (certificate(SUM, SUM, {}, (("le", 1, "n"),)), "speak of 'n'"),
    "a size that is no size": (certificate(SUM, SUM, {}, (("le", -1, "x"),)), "not a size"),
    "a size of the kernel's": (certificate(SUM, SUM, {}, (("le", 1, "%a"),)), "not the name of a size"),
    "a size that is a truth value": (certificate(SUM, SUM, {}, (("le", True, "x"),)), "not a size"),
    "two inputs of one name": (certificate(program([A, A], [], 0), program([A, A], [], 0)), "different names"),
    "an input named as those of loops": (certificate(program([array("$0")], [], 0), SAME), "an identifier"),
    "other inputs": (certificate(program([X], [], 0), program([array("A", "y")], [], 0)), "take different inputs"),
    "other outputs": (certificate(program([X], [], 0), SUM), "give different types"),
    "a proof of an output that is not there": (certificate(SAME, SAME, {"outputs": {"1": {"close": "field"}}}), "more than"),
    "a proof of a loop that is not there": (certificate(SAME, SAME, {"folds": [PROVED]}), "more than was to be proved"),
    "a proof of an obligation that is not there": (
        certificate(SAME, SAME, {"defined": {"0": {"close": "field"}}}), "more than was to be proved"),
    "facts of nothing": (certificate(SAME, SAME, {"defined": {"newly": {"x": {}}}}), "unknown fields"),
    "more of facts": (certificate(SAME, SAME, {"defined": {"again": {"x": {}}}}), "unknown fields"),
    "facts again of nothing": (certificate(SAME, SAME, {"defined": {"again": {"facts": {"7": []}}}}), "malformed"),
    "nothing proved": (certificate(SUM, program([X], [const("0")], 1)), "not proved"),
    "a proof of another form": (certificate(SAME, SAME, {"outputs": {"0": {"by": "faith"}}}), "no proof has the fields"),
    "two forms of proof at once": (
        certificate(SAME, SAME, {"outputs": {"0": {"steps": [], "when": True}}}), "no proof has the fields"),
    "closed by another word": (
        certificate(SUM, program([X], [const("0")], 1), {"outputs": {"0": {"close": "trust"}}}), "not proved"),
    "not closed by fractions": (
        certificate(SUM, program([X], [const("0")], 1), {"outputs": {"0": {"close": "field"}}}), "not proved"),
    "a step that is none": (certificate(SAME, SAME, {"outputs": {"0": {"steps": [["ring"]]}}}), "not a step"),
    "a step in a text": (certificate(SAME, SAME, {"outputs": {"0": {"steps": ["ring"]}}}), "not a step"),
    "an unknown rule": (certificate(SAME, SAME, {"outputs": {"0": {"steps": [["magic", []]]}}}), "no rule 'magic'"),
    "a step nowhere": (certificate(SAME, SAME, {"outputs": {"0": {"steps": [["ring", [2]]]}}}), "no part 2"),
    "a step at a truth value": (certificate(SAME, SAME, {"outputs": {"0": {"steps": [["ring", [True]]]}}}), "no part"),
    "a step before the first part": (certificate(SAME, SAME, {"outputs": {"0": {"steps": [["ring", [-1]]]}}}), "no part"),
    "cases of a number": (
        certificate(SAME, SAME, {"outputs": {"0": {"when": term_data(read("A")), "yes": {}, "no": {}}}}),
        "no condition to distinguish"),
    "cases of an index of nowhere": (
        certificate(SAME, SAME, {"outputs": {"0": {"when": term_data(fn("eq", idx("i"), ZERO)), "yes": {}, "no": {}}}}),
        "no condition to distinguish"),
    "cases of a loose variable": (
        certificate(SAME, SAME, {"outputs": {"0": {"when": ["eq", None, [["b", 0, []], ["num", "0", []]]],
                                                   "yes": {}, "no": {}}}}), "no condition to distinguish"),
    "an index of nowhere put for a term": (
        certificate(SAME, SAME, {"outputs": {"0": {"steps": [["equal", [0], term_data(idx("i")), {}]]}}}), "cannot stand"),
    "a truth value put for a term": (
        certificate(SAME, SAME, {"outputs": {"0": {"steps": [["equal", [0], ["true", None, []], {}]]}}}), "cannot stand"),
    "a term put for a truth value": (
        certificate(SAME, SAME, {"outputs": {"0": {"steps": [["equal", [], term_data(ONE), {}]]}}}), "cannot stand"),
    "a loose variable put for a term": (
        certificate(SAME, SAME, {"outputs": {"0": {"steps": [["equal", [0], ["b", 0, []], {}]]}}}), "cannot stand"),
    "another term put for a term": (
        certificate(SAME, SAME, {"outputs": {"0": {"steps": [["equal", [0], term_data(ONE), {}]]}}}), "not proved"),
    # -- loops -------------------------------------------------------------------------------------------
    "a loop without a proof": (certificate(SUM, LOOP), "a fold without a proof"),
    "a loop with more of a proof": (
        certificate(SUM, LOOP, {"folds": [{**PROVED, "unit": {**PROVED["unit"], "7": {"close": "field"}}}]}), "more than was to be proved"),
    "a block with the name of a size": (
        certificate(SUM, program([X], [renamed(FOLD, "s_x", "x")], 1), {"folds": [PROVED]}), "no new name"),
    "a block with no name of a size": (
        certificate(SUM, program([X], [renamed(FOLD, "s_x", "s x")], 1), {"folds": [PROVED]}), "an identifier"),
    "a loop in a loop": (
        certificate(SUM, program([X], [with_body(FOLD, "state", nodes=[FOLD])], 1), {"folds": [PROVED, PROVED]}),
        "contains no groups, and folds in its step only"),
    "a loop that cuts another axis": (
        certificate(program([X, array("R", "y", y="x")], [reduce("sum", "x", 0)], 2),
                    program([X, array("R", "y", y="x")], [UNCUT], 2), {"folds": [PROVED]}), "not how it is cut|unknown sizes"),
    "a loop over an axis of no input": (
        certificate(SUM, program([X], [{**FOLD, "axis": "y"}], 1), {"folds": [PROVED]}), "give it 0 sizes"),
    "a loop whose state has its axis": (
        certificate(program([X], [], 0), program([X], [with_body(FOLD, "state", nodes=[], outputs=[[0, "real"]])], 1),
                    {"folds": [PROVED]}), "has the streamed axis"),
    "a loop whose unit is of another type": (
        certificate(SUM, program([X], [with_body(FOLD, "unit", outputs=[[0, "extended"]])], 1), {"folds": [PROVED]}),
        "type of its state"),
    # -- groups ------------------------------------------------------------------------------------------
    "a group in a group": (
        certificate(GROUPS, program([X], [with_body(GROUP, "body", nodes=[GROUP])], 1)), "groups are not nested"),
    "one local size for two axes": (
        certificate(GROUPS, program([X], [{**GROUP, "tiles": [["x", "g_x"], ["y", "g_x"]]}], 1)), "a local size of its own"),
    "a group without its axis in the output": (
        certificate(SUM, program([X], [with_body(GROUP, "body", nodes=[reduce("sum", "x", 0)])], 1)), "lacks axis 'x'"),
    "a group whose axis is cut in another way": (
        certificate(GROUPS, program([X], [with_body(GROUP, "body", inputs=[X])], 1)), "not how it is cut|unknown sizes"),
    "a group that is not weaved": (
        certificate(GROUPS, program([X], [with_body(GROUP, "body",
                                                    nodes=[{"op": "index", "axis": ["x", "g_x"]}])], 1)), "not weaved over x"),
    "a group of no such axis": (
        certificate(GROUPS, program([X], [{**GROUP, "tiles": [["y", "g_x"]]}], 1)), "not how it is cut|give it 0 sizes"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_a_certificate_is_refused(name: str) -> None:
    made, says = CHECKS[name]
    with pytest.raises(KernelError, match=says):
        Checker(confirms).check(made)


def test_tiles_are_not_believed_to_cover_an_axis() -> None:
    with pytest.raises(KernelError, match="does not confirm that tiles"):
        Checker(lambda hypotheses, goal: False).check(certificate(program([X], [apply("exp", 0)], 1), GROUPS))


TERMS = {
    "no list": ({}, "not a term"),
    "a list of two": (["num", "0"], "not a term"),
    "arguments that are no list": (["num", "0", "()"], "not a term"),
    "an unknown operation": (["sin", None, []], "no operation sin"),
    "an operation that is none": ([1, None, []], "no operation 1"),
    "too few arguments": (["exp", None, []], "does not have 0"),
    "a sum of nothing": (["add", None, []], "does not have 0"),
    "a sum of a truth value": (["add", None, [["true", None, []]]], "mixed up"),
    "a connective of a number": (["not", None, [["num", "0", []]]], "mixed up"),
    "a number that is a float": (["num", 0.5, []], "not a number"),
    "a number over 0": (["num", "1/0", []], "not a number"),
    "a bound variable below 0": (["b", -1, []], "not a bound variable"),
    "a bound variable that is a truth value": (["b", True, []], "not a bound variable"),
    "an unknown monoid": (["big", "median", [["num", "1", []], ["num", "1", []]]], "no monoid median"),
    "a name for a sum": (["add", "A", [["num", "1", []]]], "does not go with"),
    "no name for an array": (["read", None, []], "does not go with"),
    "a number for a name": (["read", 3, []], "does not go with"),
}  # fmt: skip


@pytest.mark.parametrize("name", TERMS)
def test_a_term_is_refused(name: str) -> None:
    data, says = TERMS[name]
    with pytest.raises(KernelError, match=says):
        parse_term(data)


@pytest.mark.parametrize("data", [-1, True, "", "a%", ["+", "x"], ["-", "x", 1], 0.5, None])
def test_a_size_is_refused(data: Any) -> None:
    with pytest.raises(KernelError, match=r"not (a|the name of a) size"):
        size_term(data)


def test_only_closed_terms_are_put() -> None:
    loose = parse_term(["b", 0, []])
    with pytest.raises(KernelError, match="only closed terms"):
        substitute(read("A", idx("i")), {("idx", "i"): loose})
