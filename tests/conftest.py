"""What the tests of all rooms share: certificates that fit the published schema, and no proof of one thing twice."""

from __future__ import annotations

import contextlib
import cProfile
import functools
import gc
import hashlib
import importlib
import json
import linecache
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "catdiag"
SCHEMA = PACKAGE / "kernel" / "certificate.schema.json"
# The rooms whose tests and doctests are about proving. In all others, what has been proved in a process need not be
# proved again.
ABOUT_PROOFS = {"fuzz", "kernel", "mutants", "proofs", "prover", "solvers", "suites"}

# As many tests run at once as there are processors. Where each of them computed with as many threads, these would wait
# for one another, and most of the time go into waiting. Before NumPy and torch are imported, which read it then.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

# A shell's script has what it runs in the background ignore Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The sources come with a plugin of pytest, for which it would rewrite the assertions of every module of theirs.
for _finder in sys.meta_path:
    getattr(_finder, "_must_rewrite", set()).discard("catdiag")

# What is collected stays to the end. The collector of garbage would go through it again and again, which takes a
# quarter of all computing.
gc.disable()


# No test fails for what the clock says. A machine with a GPU has the package, and little of what its tests need.
with contextlib.suppress(ImportError):
    from hypothesis import HealthCheck, Phase, settings
    from hypothesis.internal.conjecture.providers import Constants, HypothesisProvider

    # Nor are examples taken from the constants of the modules that happen to be imported, which depend on what ran
    # before in a process; reading them takes each process seconds.
    HypothesisProvider._local_constants = Constants()

    # The same examples in each run, so that a run says of a change what another says of it.
    # What does not matter in a counterexample is not looked for: tests of what must fail would look for it too.
    phases = [phase for phase in Phase if phase is not Phase.explain]
    unhurried = [HealthCheck.too_slow]
    same = settings(derandomize=True, deadline=None, phases=phases, suppress_health_check=unhurried)
    settings.register_profile("the same on every machine", same)
    settings.load_profile("the same on every machine")


def pytest_configure(config: pytest.Config) -> None:
    """What a worker compiles, the other workers of the run and the processes that tests start read.

    Where no bytecode is written it goes to a folder of the run's own, so that nothing is written beside the sources,
    and none of it is stale.
    """
    if sys.dont_write_bytecode and hasattr(config, "workerinput"):
        sys.dont_write_bytecode = False
        sys.pycache_prefix = str(Path(config.option.basetemp).parent / "bytecode")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each worker begins to import elsewhere. Otherwise all would compile the same file at the same time."""
    of_worker = getattr(session.config, "workerinput", None)
    if of_worker is None:
        return
    named = [session.config.invocation_params.dir / argument.split("::")[0] for argument in session.config.args]
    files = sorted({file for path in named for file in ([path] if path.is_file() else path.rglob("test_*.py"))})
    first = len(files) * int(of_worker["workerid"].removeprefix("gw")) // of_worker["workercount"]
    for file in files[first:] + files[:first]:
        if file.suffix == ".py" and file.is_relative_to(TESTS.parent):
            # What cannot be imported is told where it is collected.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    # Young objects die by their counts; going through those that live is most of what collecting costs. It is done for
    # half a million at a time, which takes a process some 50 MB.
    gc.set_threshold(500_000, 20, 100)
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before each doctest its runner asks the file system of every file whose lines were read since."""
    if isinstance(item, pytest.DoctestItem):
        linecache.clearcache()


@pytest.fixture(scope="session")
def by_schema() -> Any:
    """The validator of certificates that says where one breaks the schema."""
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def calls() -> Callable[[Callable[[], object]], int]:
    """How many functions a piece of work calls, Python's own included: as many on every machine, however loaded."""

    def counted(work: Callable[[], object]) -> int:
        profile = cProfile.Profile()
        profile.runcall(work)
        return sum(entry.callcount for entry in profile.getstats())

    return counted


class Proved:
    """Theorems that were found in this run, and goals that stayed open, by what `certify` was given, where `known` is
    set.

    `shared` is a folder of the run's own with those that any of its processes has found. A process that reads one there
    checks it with its own kernel, as it does whatever was pickled.
    """

    def __init__(self, certify: Callable[..., Any], fits: Callable[[Any], None], shared: Path) -> None:
        self.known = False
        self._certify, self._fits, self._shared = certify, fits, shared
        self._solver = importlib.import_module("catdiag.solvers.z3").Z3
        self._write_whole = importlib.import_module("catdiag.util.files").write_whole
        self._open_goal = importlib.import_module("catdiag.prover.proof_search").OpenGoal
        self._found: dict[str, tuple[Any, str]] = {}
        self._open: dict[str, tuple[Any, ...]] = {}

    def __call__(self, ask: Any, statement: Any, further: bool = True, earlier: Any = None) -> Any:
        if not self.known or type(ask) is not self._solver:
            return self._new(ask, statement, further, earlier)
        place = hashlib.sha256(json.dumps([ask.rlimit, statement, further, earlier]).encode()).hexdigest()
        if place in self._open:
            raise self._open_goal(*self._open[place])
        if place not in self._found:
            file = self._shared / place
            if file.exists():
                theorem = pickle.loads(file.read_bytes())
            else:
                try:
                    theorem = self._new(ask, statement, further, earlier)
                except self._open_goal as error:
                    self._open[place] = (*error.args, error.condition, error.large)
                    raise
                self._write_whole(file, pickle.dumps(theorem))
            self._found[place] = replace(theorem, certificate={}), json.dumps(theorem.certificate)
        theorem, certificate = self._found[place]
        return replace(theorem, certificate=json.loads(certificate))

    def _new(self, *given: Any) -> Any:
        theorem = self._certify(*given)
        self._fits(theorem.certificate)
        return theorem


@pytest.fixture(scope="session")
def fitting() -> Any:
    """The validator of certificates that is quick, for many of them."""
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def of_the_run(config: pytest.Config, factory: pytest.TempPathFactory) -> Path:
    """The folder that all workers of a run share: their own are side by side in it."""
    own = factory.getbasetemp()
    return own.parent if hasattr(config, "workerinput") else own


@pytest.fixture(scope="session")
def proved(fitting: Any, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proved]:
    """Every certificate that a test has found is one by the published schema too."""
    shared = of_the_run(pytestconfig, tmp_path_factory) / "proved"
    shared.mkdir(exist_ok=True)
    api = importlib.import_module("catdiag.prover.api")
    certify = api.certify
    kept = Proved(certify, fitting.validate, shared)
    api.certify = functools.wraps(certify)(lambda *args, **options: kept(*args, **options))
    yield kept
    api.certify = certify


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Generated modules are kept in a folder of the run's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CATDIAG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def bytecode(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each process that a test starts would compile the package again where no bytecode is written."""
    with pytest.MonkeyPatch.context() as patch:
        if "PYTHONDONTWRITEBYTECODE" in os.environ:
            patch.delenv("PYTHONDONTWRITEBYTECODE")
            patch.setenv("PYTHONPYCACHEPREFIX", str(of_the_run(pytestconfig, tmp_path_factory) / "bytecode"))
        yield


@pytest.fixture(scope="session")
def compiling() -> None:
    """For tests that make machine code."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET"):
        pytest.skip("nothing is compiled under TRITON_INTERPRET")


@pytest.fixture(scope="session")
def interpreting() -> Iterator[None]:
    """For tests that run kernels on the processor; `test_in_the_interpreter` runs them in a process of their own."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    if not os.environ.get("TRITON_INTERPRET"):
        pytest.skip("run by test_in_the_interpreter, with TRITON_INTERPRET set")
    interpreter = importlib.import_module("triton.runtime.interpreter")
    patch_tensor = interpreter._patch_lang_tensor

    def patch_tensor_and_index(tensor: Any, scope: Any) -> None:
        # Triton 3.6 converts arrays of shape (1,) by int(), which NumPy refuses from 2.4 on.
        patch_tensor(tensor, scope)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang_tensor", patch_tensor_and_index)
        yield


@pytest.fixture(scope="session")
def shared_solver() -> Any:
    """The solver that whoever brings none asks: one process for all tests of a worker."""
    return importlib.import_module("catdiag.solvers.z3").shared()


@pytest.fixture(scope="session")
def ask() -> Iterator[Any]:
    """A solver of the tests' own, with the usual bounds."""
    with importlib.import_module("catdiag.solvers.z3").Z3() as solver:
        yield solver


@pytest.fixture(scope="session")
def flash() -> Any:
    """Attention streamed over keys in groups of queries, as FlashAttention runs."""
    return importlib.import_module("catdiag").library.get("attention").stream("x").group("q")


@pytest.fixture(scope="session")
def product() -> Any:
    """A matrix product in tiles of its result, streamed over what it sums."""
    return importlib.import_module("catdiag").library.get("matmul").stream("b").group("a c")


@pytest.fixture(autouse=True)
def proved_once(request: pytest.FixtureRequest) -> None:
    """What has been proved is known where proofs are not what is tested, and nothing is changed under them."""
    if request.node.get_closest_marker("gpu") is not None:
        return  # machines with a GPU have the package, and little of what its tests need
    request.getfixturevalue("shared_solver").start()
    proved: Proved = request.getfixturevalue("proved")
    rooms = {request.path.relative_to(top).parts[0] for top in (TESTS, PACKAGE) if request.path.is_relative_to(top)}
    proved.known = rooms.isdisjoint(ABOUT_PROOFS) and "monkeypatch" not in request.fixturenames
