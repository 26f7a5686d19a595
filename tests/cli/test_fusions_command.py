"""`catdiag fusions` and `catdiag shard`."""

import json


def test_ways_with_their_crossover_and_the_best_at_sizes(run):
    done = run("fusions", "softmax_contraction", "--size", "q=64,x=32", "--memory", "20", "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert set(found) == {"operator", "fused", "rival", "crossover", "best"}
    assert found["fused"]["schedules"] == ["stream x, group q"] and found["rival"]["saved"] == ["softmax [q x]"]
    # Scores in and results out, and v with each of the tiles that fit; the other way needs a row of 32 values.
    assert found["best"]["saved"] == [] and found["best"]["exhaustive"]
    text = run("fusions", "matvec", "--cases")
    assert "matvec: 1 stage, nothing to cut" in text.out and text.status == 3 and "nothing to cut" in text.err


def test_wrong_uses_of_fusions_are_named(run):
    run("fusions", "dot", "--size", "x=3").one_message(2, "--memory")
    run("fusions", "dot", "--size", "x=3", "--memory", "0").one_message(2, "positive")
    run("fusions", "dot", "--size", "y=3", "--memory", "9").one_message(2, "no size was given for x")
    run("fusions", "nothing").one_message(2, "no diagram")


def test_an_operator_over_devices(run):
    done = run("shard", "matmul", "--stream", "b", "--group", "a c", "--over", "a=P", "--stored", "B=all")
    assert done.status == 0 and "copied" in done.out and "received   0 values" in done.out
    done = run("shard", "matmul", "--stream", "b", "--group", "a c", "--over", "a=2,c=R", "--json")
    found = json.loads(done.out)
    assert found["devices"] == {"a": "2", "c": "R"} and {s["how"] for s in found["shares"]} == {"rotates", "stays"}


def test_wrong_uses_of_shard_are_named(run):
    run("shard", "matmul", "--group", "a", "--over", "c=2").one_message(2, "neither grouped nor streamed")
    run("shard", "matmul", "--over", "a").one_message(2, "axis=devices")
    run("shard", "matmul", "--over", "a=2").one_message(2, "matmul is in no groups yet", "--group 'a'")
    run("shard", "matmul", "--group", "a", "--over", "a=2", "--stored", "A").one_message(2, "array=axis")
