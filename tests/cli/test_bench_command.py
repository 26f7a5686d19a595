"""`catdiag bench` where there is no GPU: what it would run, and every wrong use named."""

import json

import pytest


def has_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def test_without_a_gpu_it_says_so_before_anything_is_proved(run):
    if has_gpu():
        pytest.skip("a GPU is there")
    done = run("bench", "matmul", "--size", "a=64,b=64,c=64")
    assert done.status == 2 and ("catdiag[gpu]" in done.err or "no GPU" in done.err)


def test_a_comparison_is_written_to_be_run_elsewhere(run, tmp_path):
    file = tmp_path / "product.json"
    options = ("--chip", "h200", "--stream", "b", "--group", "a c", "--draw", "B=normal*0.5", "--proposals", "2")
    done = run("bench", "matmul", "--size", "a=4096,b=4096,c=4096", *options, "--to", file)
    assert done.status == 0, done.err
    assert "1.374e+11 operations" in done.out
    found = json.loads(file.read_text())
    assert [k["entry"] for k in found["kernels"]] == ["matmul", "matmul"] and "@triton.jit" in found["kernels"][0][
        "text"
    ]
    assert found["inputs"][1]["scale"] == 0.5 and found["flops"] == 2 * 4096**3
    from catdiag.measure.bench_case import BenchCase

    assert BenchCase.of(found).sizes == {"a": 4096, "b": 4096, "c": 4096}


def test_wrong_uses_are_named(run, tmp_path):
    to = ("--to", tmp_path / "case.json", "--chip", "h200")
    run("bench", "matmul", "--on", "h200").one_message(2, "expected gpu", "--chip")
    run("bench", "matmul", "--size", "a=64,b=64", *to).one_message(2, "the size of c is missing")
    sized = ("--size", "a=64,b=64,c=64")
    run("bench", "matmul", *sized, "--to", tmp_path / "case.json").one_message(2, "--chip")
    run("bench", "matmul", *sized, *to, "--draw", "B=evenly").one_message(2, "how B is drawn", "normal")
    run("bench", "matmul", *sized, *to, "--draw", "Z=normal").one_message(2, "'Z' is not an input")
    run("bench", "matmul", *sized, *to, "--scalar", "eps=1").one_message(2, "'eps' is not a scalar input")
    run("bench", "rms_norm", "--size", "t=4,d=4", *to, "--scalar", "eps=x").one_message(2, "eps=x")
    run("bench", "matmul", *sized, *to, "--proposals", "0").one_message(2, "1 or more")
    other = tmp_path / "other.json"
    other.write_text("[]")
    run("bench", other, *to).one_message(2, "not a comparison")
    run("bench", other, *to, "--size", "a=1").one_message(2, "leave out the options")
    run("bench", tmp_path / "missing.json", *to).one_message(2, "cannot read")
