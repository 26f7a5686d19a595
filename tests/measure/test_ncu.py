"""The tables of Nsight Compute, in the shapes that they come in, and the ways in which it says that it cannot."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from catdiag.measure.profile.ncu import (
    LOADED,
    CounterReading,
    Profile,
    command,
    number,
    profile,
    read,
    unavailable_reason,
)

LONG = """==PROF== Connected to process 1234 (/usr/bin/python3.12)
hello from the program, "quoted, with commas"
==PROF== Profiling "_kernel" - 0: 0%....50%....100% - 3 passes
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"Section Name","Metric Name","Metric Unit","Metric Value"
"0","1234","python3","127.0.0.1","_kernel","1","7","(128, 1, 1)","(64, 1, 1)",\
"0","9.0","Command line profiler metrics","dram__bytes_read.sum","Mbyte","100.73"
"0","1234","python3","127.0.0.1","_kernel","1","7","(128, 1, 1)","(64, 1, 1)",\
"0","9.0","Command line profiler metrics","l1tex__m_xbar2l1tex_read_bytes.sum","byte","4,329,045,824"
"1","1234","python3","127.0.0.1","void other<float, (int)4>(float *, int)","1","7","(128, 1, 1)","(64, 1, 1)",\
"0","9.0","Command line profiler metrics","dram__bytes_read.sum","Gbyte","1.5"
"1","1234","python3","127.0.0.1","void other<float, (int)4>(float *, int)","1","7","(128, 1, 1)","(64, 1, 1)",\
"0","9.0","Command line profiler metrics","l1tex__m_xbar2l1tex_read_bytes.sum","","n/a"
"""

WIDE = """==PROF== Disconnected from process 1234
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","gpu__time_duration.sum","launch__registers_per_thread"
"","","","","","","","","","","","Kbyte","us","register/thread"
"0","1234","python3","127.0.0.1","_kernel","1","7","(128, 1, 1)","(64, 1, 1)","0","9.0","1,024.5","12.5","168"
"1","1234","python3","127.0.0.1","_kernel","1","7","(128, 1, 1)","(64, 1, 1)","0","9.0","nan","(!) n/a",""
==WARNING== Found outstanding GPU clock reset
"""


def test_one_line_for_each_counter() -> None:
    first, second = read(LONG)
    assert first == CounterReading("_kernel", 0, {"dram__bytes_read.sum": 100730000.0, LOADED: 4329045824.0})
    assert second == CounterReading("other", 1, {"dram__bytes_read.sum": 1.5e9}, (LOADED,))


def test_one_line_for_each_kernel() -> None:
    first, second = read(WIDE)
    values = {
        "dram__bytes_read.sum": 1024500.0, "gpu__time_duration.sum": 12500.0, "launch__registers_per_thread": 168.0,
    }  # fmt: skip
    assert (first.kernel, first.values, first.missing) == ("_kernel", values, ())
    assert second.values == {} and set(second.missing) == set(values)


def test_without_units_and_with_several_tables() -> None:
    bare = '"ID","Kernel Name","a__b.sum"\n"0","k","7"\n'
    assert [r.values for r in read(bare)] == [{"a__b.sum": 7.0}]
    other = bare.replace('"0"', '"5"').replace('"7"', '"8"')
    assert [r.values["a__b.sum"] for r in read(bare + other)] == [7.0, 8.0]
    assert [r.kernel for r in read(LONG + WIDE)][:1] == ["_kernel"]


@pytest.mark.parametrize("text", ["", "no table", '"ID","Kernel Name"\n', '"ID","Kernel Name","a__b"\n"0","k"\n', '"'])
def test_what_is_no_table_gives_nothing(text: str) -> None:
    assert read(text) == ()


def test_launches_of_two_processes_are_apart() -> None:
    row = '"ID","Process ID","Kernel Name","a__b.sum"\n"0","1","k","7"\n"0","2","k","9"\n'
    assert [r.values["a__b.sum"] for r in read(row)] == [7.0, 9.0]


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("1,234,567", "", 1234567.0),
        ("1,234.5", "byte", 1234.5),
        ("2", "Kbyte", 2000.0),
        ("2", "Kibyte/block", 2048.0),
        ("2", "Gbyte", 2e9),
        ("3", "ms", 3e6),
        ("1e3", "inst", 1000.0),
        ("-0", "", 0.0),
        ("12,34", "", None),
        ("n/a", "byte", None),
        ("nan", "byte", None),
        ("inf", "byte", None),
        ("", "byte", None),
        ("no data", "", None),
    ],
)
def test_numbers(text: str, unit: str, value: float | None) -> None:
    assert number(text, unit) == value


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ERR_NVGPUCTRPERM"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "LibraryNotLoaded"),
        ("==WARNING== No kernels were profiled.", "no kernel was launched"),
        ("==ERROR== Something new happened", "Something new happened"),
        ("Segmentation fault", "status 11: Segmentation fault"),
        ("", "status 11"),
    ],
)
def test_why_there_are_none(said: str, why: str) -> None:
    assert why in unavailable_reason(said, 11)


def stand_in(folder: Path, script: str) -> str:
    """A program that stands for ncu."""
    path = folder / "ncu"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_profile_is_read(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(WIDE, encoding="utf-8")
    found = profile(["true"], ncu=stand_in(tmp_path, f"cat {table}"))
    assert not found.unavailable and [r.kernel for r in found.readings] == ["_kernel", "_kernel"]


def test_unknown_counters_are_left_out_and_it_is_run_again(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(WIDE, encoding="utf-8")
    script = (
        f'case "$*" in *no__such.sum*) echo "==ERROR== Failed to find metric no__such.sum"; exit 1;; esac; cat {table}'
    )
    found = profile(["true"], ["dram__bytes_read.sum", "no__such.sum"], ncu=stand_in(tmp_path, script))
    assert found.left_out == ("no__such.sum",) and len(found.readings) == 2


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM' >&2; exit 1", "may not read the GPU's counters"),
        ("echo '==ERROR== Failed to initialize the profiler: LibraryNotLoaded'; exit 1", "LibraryNotLoaded"),
        ("exit 3", "status 3"),
        ("sleep 5", "stopped after 0 seconds"),
    ],
)
def test_what_stops_it_is_said(tmp_path: Path, script: str, why: str) -> None:
    found = profile(["true"], ncu=stand_in(tmp_path, script), timeout=0.4)
    assert why in found.unavailable and found.readings == ()


def test_nothing_installed_is_said() -> None:
    assert profile(["true"], ncu="no-such-profiler") == Profile(
        unavailable="Nsight Compute is not installed: there is no no-such-profiler"
    )


def test_clocks_are_left_alone() -> None:
    made = command(["python", "x.py"], ["a", "b"])
    assert made[:3] == ["ncu", "--clock-control", "none"] and made[-2:] == ["python", "x.py"] and "a,b" in made
