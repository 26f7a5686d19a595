"""The chips of the table, and chips of one's own as TOML files."""

import dataclasses
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.chip import hardware
from catdiag.chip.hardware import Hardware
from catdiag.chip.units import quantity
from catdiag.planner.fit import fit

CHIPS = [hardware.get(name) for name in hardware.names()]
DEFAULTS = {f.name: f.default for f in dataclasses.fields(Hardware)}


@pytest.mark.parametrize("chip", CHIPS, ids=lambda c: c.name)
def test_every_number_has_its_source_and_every_chip_its_file(chip):
    given = {n for n, v in chip.as_dict().items() if v != DEFAULTS[n] and v not in ("", {}, "registers", "TMEM")}
    assert given - {"name", "sources"} <= set(chip.sources)
    assert not chip.energy_pj_per_byte, "none of these is published"
    assert hardware.loads(hardware.dumps(chip)) == chip and pickle.loads(pickle.dumps(chip)) == chip
    assert json.loads(json.dumps({**chip.as_dict(), **chip.hierarchy.as_dict()}))["name"] == chip.name
    assert hardware.get(chip.name.lower().replace(" ", "-")) is chip
    assert "uncertain" in str(chip) or "assumed" in str(chip)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda c: c.name)
def test_hierarchies(chip):
    found = chip.hierarchy
    assert found.root.name == "HBM" and found.level("SMEM").capacity == chip.smem_per_block
    assert found.chain("HBM", "SMEM").level("SMEM").count == chip.sms
    assert found.chain("HBM", "SMEM").edges[0].bytes_per_s == chip.hbm_bytes_per_s
    assert found.level("registers").capacity == 4 * chip.registers_per_sm
    caches = [level.name for level in found.levels if level.kind == "cache"]
    assert caches == {"MI300X": ["LLC", "L2"], "TPU v5p": []}.get(chip.name, ["L2"])


def test_chips_that_are_no_gpus_of_one_vendor():
    amd, tpu, b200 = (hardware.get(n).hierarchy for n in ("MI300X", "TPU v5p", "B200"))
    assert (amd.level("L2").count, amd.level("SMEM").count, amd.level("LDS")) == (8, 38, amd.level("SMEM"))
    assert amd.level("VGPRs").capacity == 512 * 1024 and amd.level("Infinity Cache").capacity == 256 << 20
    assert tpu.level("VMEM").capacity == 64 << 20 and tpu.edge("HBM", "VMEM").bytes_per_s == 2765e9
    assert b200.level("TMEM").capacity == 256 * 1024
    assert b200.paths("SMEM", "registers") == (("SMEM", "registers"), ("SMEM", "TMEM", "registers"))


def test_a_chip_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine"\nbase = "H100"\nsms = 16\nl2_bytes = "8 MiB"\nclock_hz = "1.5 GHz"\n'
        'energy_pj_per_byte = {HBM-L2 = 31.2}\n[sources]\nsms = "counted"\n'
    )
    mine = hardware.load(file)
    assert (mine.name, mine.sms, mine.l2_bytes, mine.clock_hz) == ("mine", 16, 8 << 20, 1.5e9)
    assert mine.sources["sms"] == "counted" and "l2_bytes" not in mine.sources and "tensor" in mine.sources
    assert mine.hierarchy.edge("HBM", "L2").pj_per_byte == 31.2
    assert hardware.get(str(file)) == hardware.get(file) == hardware.loads(hardware.dumps(mine)) == mine
    total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    assert fit(total, str(file), {"q": 64, "x": 64}).hardware == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "mine.toml is not valid TOML"),
        ('name = "x"\nbase = "H100"\nsmss = 3', "mine.toml: the key 'smss', which is not known; did you mean 'sms'?"),
        ('name = "x"\nsms = 3', "mine.toml: the key 'smem_per_sm' is missing .and smem_per_block, "),
        ('base = "H100"\nsms = -3', "mine.toml: key 'sms' is -3, which is negative"),
        ('base = "H100"\nsms = 0', "mine.toml: hardware 'H100': sms is 0, expected a positive number"),
        ('base = "H100"\nsms = 2.5', "key 'sms' is 2.5: expected a whole number"),
        ('base = "H100"\nsms = true', "key 'sms': True is a bool: expected a plain number, such as 128"),
        ('base = "H100"\nl2_bytes = "50 TB/s"', "key 'l2_bytes': '50 TB/s' is in B/s: expected B, such as 65536 or"),
        ('base = "H100"\nhbm_bytes_per_s = "3 TB"', "key 'hbm_bytes_per_s': '3 TB' is in B: expected B/s"),
        ('base = "H100"\nclock_hz = "2 furlongs"', "'2 furlongs' has unit 'furlongs', which is not known: expected Hz"),
        ('base = "H100"\nclock_hz = "fast"', "'fast' is no number"),
        ('base = "H100"\nname = 3', "key 'name' is 3: expected a text"),
        ('base = "H900"', "key 'base' is 'H900': expected one of A100"),
        ('base = "H100"\ntensor = 3', "key 'tensor' is 3: expected a table"),
        ('base = "H100"\n[tensor]\nbf16 = "3 GB"', "key 'tensor.bf16': '3 GB' is in B: expected FLOP/s"),
        ('base = "H100"\n[sustained]\ntensor = 1.5\nhbm = 1', "above 0 and at most 1, of 'tensor'"),
        ('base = "H100"\n[sources]\nsmem = "x"', "sources names 'smem'"),
        ('base = "H100"\nwarps = []', "key 'warps' is .*: expected whole numbers"),
        ('base = "H100"\n[words]\nL3 = "x"', "words has 'L3': expected a word for one of core, HBM"),
        ('base = "H100"\n[energy_pj_per_byte]\nHBM-SMEM = 3', "of 'HBM-SMEM' is 3.0; expected .* L2-SMEM"),
        ('base = "H100"\nl2_count = 5', "l2_count is 5, which does not divide sms, 132"),
        ('base = "H100"\nsmem_per_block = "1 MiB"', "smem_per_block is 1048576, more than smem_per_sm"),
        ('base = "H100"\nllc_bytes = "1 MiB"', "go together"),
        ('base = "H100"\naccumulators = "L1"', "expected one of registers, TMEM, SMEM"),
        ('base = "H100"\naccumulators = "TMEM"', "one needs the other"),
        ('base = "H100"\nlatency_s = inf', "key 'latency_s': inf is not a finite number"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(tmp_path, text, message):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(cd.errors.CatdiagError, match=message) as caught:
        hardware.load(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there():
    with pytest.raises(cd.errors.CatdiagError, match=r"cannot read the hardware file nowhere.toml"):
        hardware.get("nowhere.toml")


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 10**6), st.sampled_from(["B", "KiB", "MiB", "GiB", "kB", "MB", "GB", "TB"]))
def test_bytes_are_exact(number, unit):
    scale = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}[unit[:-2]] if "i" in unit else 0
    scale = scale or 1000 ** " kMGT".index(unit[:-1] or " ")
    assert quantity(f"{number} {unit}", "B") == quantity(f"{number}{unit}", "B") == number * scale


@settings(max_examples=25, deadline=None)
@given(st.floats(1e-3, 1e15, allow_nan=False), st.text(max_size=20), st.integers(1, 2**40))
def test_any_chip_round_trips(rate, words, size):
    chip = dataclasses.replace(hardware.MI300X, hbm_bytes_per_s=rate, l2_bytes=size, sources={"sms": words})
    assert hardware.loads(hardware.dumps(chip)) == chip


@pytest.mark.parametrize("change", [{"clock_hz": 1e-9}, {"tensor": {"bf16": 1e30}}, {"special_per_clock": 1e-15}])
def test_chips_out_of_all_proportion_are_planned_for(change):
    total = cd.algorithm("q x -> q")(lambda a: cd.sum(a * a, "x")).stream("x").group("q")
    chip = dataclasses.replace(hardware.H100, **change)
    assert total.plan(chip, {"q": 64, "x": 64}).tiles
    product = cd.library.get("matmul").stream("b").group("a c")
    assert product.plan(chip, {"a": 64, "b": 64, "c": 64}).tiles
