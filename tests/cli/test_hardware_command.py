"""`catdiag hardware`: the list, one chip, a file of one's own, JSON; and plans for that file."""

import json


def test_chips_are_listed_and_described(run):
    listed = run("hardware")
    for name in ("A100", "H100", "H200", "B200", "MI300X", "TPU v5p"):
        assert name in listed.out
    one = run("hardware", "mi300x")
    assert one.status == 0 and "Infinity Cache" in one.out and "LLC to L2" in one.out and "whitepaper" in one.out
    assert "8 under each LLC" in one.out and "38 under each L2" in one.out


def test_json(run):
    every = json.loads(run("hardware", "--json").out)
    assert [chip["name"] for chip in every][-1] == "TPU v5p"
    one = json.loads(run("hardware", "b200", "--json").out)
    assert one["tmem_per_sm"] == 256 * 1024 and one["sources"]["tmem_per_sm"].startswith("PTX ISA")
    levels = {level["name"]: level for level in one["hierarchy"]["levels"]}
    assert levels["TMEM"]["capacity"] == 256 * 1024 and levels["SMEM"]["count"] == 148
    assert {"upper": "HBM", "lower": "L2"}.items() <= one["hierarchy"]["edges"][0].items()


def test_a_file_of_ones_own(run, op, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nbase = "A100"\nsms = 8\n')
    assert run("hardware", file).out.startswith("mine\n")
    file.write_text('name = "mine"\nbase = "A100"\nsms = "8 MiB"\n')
    run("hardware", file).one_message(2, f"{file}: key 'sms': '8 MiB' is in B: expected a plain number, such as 128")
    run("derive", op("variance"), "--on", file, "--size", "q=64,x=64").one_message(2, f"{file}: key 'sms'")
    run("hardware", tmp_path / "none.toml").one_message(2, "cannot read the hardware file")
