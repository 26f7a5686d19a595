"""Terms: what an array program computes at one index, for sizes that are symbols.

Values are the reals with minus infinity, and truth values. Every operation is total:

- `add` is −∞ if a summand is; `mul` is 0 if a factor is −∞ (an arbitrary choice that no rule but
  those that prove their factors real may use); `max` takes −∞ as least;
- `div a n` is ⌊a/n⌋ for n > 0, an integer; it is 0 for n ≤ 0 and where a or n is −∞;
- `inv 0 = 0`, `log t = 0` for t ≤ 0, `sqrt t = 0` for t < 0, all three 0 at −∞; `exp(−∞) = 0`;
- `apply %f a`, for f one of `FIXED`, is that function, with the laws that A7 says: 0 at −∞;
- `apply %uniform s c0 c1 c2 c3` is a number that seed and counter determine: real, and nothing else is known of it;
- `big ⊕ n t` is t(0) ⊕ … ⊕ t(n−1); over no index it is the unit: 0, 1, −∞ for sum, prod, max. A range n that a
  certificate brings in may be any number: the indices are the naturals below it, which are n only for a natural n;
- `read A i j` is an element of an input; outside the input's range it is arbitrary.

Bound variables are de Bruijn indices, so that equality of terms is equality up to renaming:

>>> x = big("sum", size("n"), read("A", bound(0)))
>>> show(x)
'Σ_{i0<n} A[i0]'
>>> show(open_body(x.args[1], idx("k")))
'A[i_k]'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from weakref import ref

Data = str | int | Fraction | None

NUMERIC = {"num", "bot", "size", "idx", "b", "read", "add", "mul", "div", "inv", "exp", "log", "sqrt", "max", "big",
           "ite", "apply"}  # fmt: skip
LOGICAL = {"true", "false", "lt", "le", "eq", "and", "or", "not", "holds"}
MONOIDS = {"sum": "add", "prod": "mul", "max": "max"}

FIXED = ("erf", "sin", "cos")
"""Functions of a real with a meaning of their own: the error function 2/√π·∫₀ᵃ e^(−t²) dt, sine and cosine of radians.

A term applies them under a name that no user's function can have, `%` and theirs.
"""

RANDOM = "uniform"
"""The random number of a seed and a counter, under the name `%uniform`. No rule says more of it than that equal
arguments give equal real numbers, as of a user's function: so a theorem about it holds for every generator.
"""

LARGEST = 200_000
"""The most symbols of a term, repeated parts counted each time; what leads to larger ones is refused."""


class KernelError(Exception):
    """A step, program or certificate that the kernel does not accept.

    What it says may be a format, and the things to put into it, which are not printed unless it is read: a search tries
    many steps that are not accepted.
    """

    def __str__(self) -> str:
        if len(self.args) < 2:
            return super().__str__()
        try:
            return str(self.args[0]).format(*self.args[1:])
        except RecursionError:
            return str(self.args[0]).replace("{}", "a deep term")


_NO_NAMES: frozenset[str] = frozenset()


_FEW = 50_000
"""So many entries the table of living terms may have before those of dead ones are looked for."""


class _Living(dict[tuple[object, ...], "ref[Term]"]):
    """The terms that live: by their operation, datum, and the places in memory of their arguments."""

    most = _FEW

    def put(self, place: tuple[object, ...], t: Term) -> None:
        """Records a term, and forgets those that died once half of all may have."""
        if len(self) >= self.most:
            for there, living in list(self.items()):
                if living() is None:
                    self.pop(there, None)
            self.most = max(_FEW, 2 * len(self))
        self[place] = ref(t)


_LIVING = _Living()


class Term:
    """An operation, its datum (a name, a number, a monoid) and its arguments. Immutable.

    One that is made of the same objects as a term that lives is that term (hash-consing), so that equal terms are
    mostly one object, and what is found of one is found once. Nothing rests on it: terms are equal by structure, as
    `__eq__` compares them, so that it is no harm if two threads make one term twice. And what `_LIVING` gives is what
    was asked for: its keys name arguments by their places in memory, and a term that lives keeps its arguments there.
    """

    __slots__ = ("__weakref__", "_hash", "_key", "_leaves", "args", "data", "indices", "loose", "op", "weight")
    op: str
    data: Data
    args: tuple[Term, ...]
    weight: int
    loose: int
    """One more than the largest bound variable that is free in it."""
    indices: frozenset[str]
    """The names of the free indices in it."""
    _hash: int
    _key: str | None
    _leaves: dict[str, frozenset[str]] | None

    def __new__(cls, op: str, data: Data = None, args: tuple[Term, ...] = ()) -> Term:
        # A fraction is equal to a whole number of another type, which is another datum.
        datum = data.as_integer_ratio() if type(data) is Fraction else data
        place = (op, datum, *map(id, args))
        living = _LIVING.get(place)
        if living is not None and (found := living()) is not None:
            return found
        self = object.__new__(cls)
        self.op, self.data, self.args = op, data, args
        self._hash = hash((op, data, *[a._hash for a in args]))
        self._key = self._leaves = None
        weight, loose, indices = 1, 0, frozenset((str(data),)) if op == "idx" else _NO_NAMES
        for a in args:
            weight += a.weight
            if a.loose > loose:
                loose = a.loose
            if a.indices and not a.indices <= indices:
                indices = indices | a.indices if indices else a.indices
        if op == "b":
            if not isinstance(data, int):
                raise KernelError("a bound variable has a number")
            loose = data + 1
        elif op == "big":
            loose = max(args[0].loose, args[1].loose - 1, 0)
        self.weight, self.loose, self.indices = weight, loose, indices
        _LIVING.put(place, self)
        return self

    def __reduce__(self) -> tuple[type[Term], tuple[str, Data, tuple[Term, ...]]]:
        """A copy, in this process or another, is made as any term is: hashes of text differ between processes."""
        return Term, (self.op, self.data, self.args)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Term) or self._hash != other._hash:
            return False
        if not self.args and not other.args:
            return self.op == other.op and self.data == other.data
        # Without recursion, and each pair once: terms may be deep, and share parts.
        seen: set[tuple[int, int]] = set()
        stack = [(self, other)]
        while stack:
            a, b = stack.pop()
            if a is b or (id(a), id(b)) in seen:
                continue
            if a._hash != b._hash or a.op != b.op or a.data != b.data or len(a.args) != len(b.args):
                return False
            seen.add((id(a), id(b)))
            stack.extend(zip(a.args, b.args, strict=True))
        return True

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return show(self)

    @property
    def key(self) -> str:
        """A text that determines the term: the order in which sums and products are written."""
        if self._key is None:
            self._key = f"{self.op}{'' if self.data is None else ':' + str(self.data)}" + (
                "(" + ",".join(a.key for a in self.args) + ")" if self.args else ""
            )
        return self._key


def num(value: int | Fraction) -> Term:
    """A rational number."""
    return Term("num", value if type(value) is Fraction else Fraction(value))


ZERO, ONE, MINUS = num(0), num(1), num(-1)
BOT, TRUE, FALSE = Term("bot"), Term("true"), Term("false")
UNITS = {"sum": ZERO, "prod": ONE, "max": BOT}


def size(name: str) -> Term:
    """A size symbol: any natural number."""
    return Term("size", name)


def idx(name: str) -> Term:
    """A free index variable."""
    return Term("idx", name)


def bound(k: int) -> Term:
    """The variable of the k-th binder outwards."""
    return Term("b", k)


def read(array: str, *indices: Term) -> Term:
    """An element of an input array."""
    return Term("read", array, indices)


def add(*args: Term) -> Term:
    """A sum of any number of terms."""
    return args[0] if len(args) == 1 else Term("add", None, args) if args else ZERO


def mul(*args: Term) -> Term:
    """A product of any number of terms."""
    return args[0] if len(args) == 1 else Term("mul", None, args) if args else ONE


def sub(a: Term, b: Term) -> Term:
    """a + (−1)·b."""
    return add(a, mul(MINUS, b))


def fn(op: str, *args: Term) -> Term:
    """Any other operation on its arguments."""
    return Term(op, None, args)


def fixed(name: str, a: Term) -> Term:
    """One of the functions of `FIXED`."""
    return Term("apply", "%" + name, (a,))


def is_fixed(t: Term) -> bool:
    """Whether a term is one of the functions of `FIXED` of an argument."""
    return t.op == "apply" and len(t.args) == 1 and str(t.data)[0] == "%" and str(t.data)[1:] in FIXED


def has_own_name(t: Term) -> bool:
    """Whether a term applies a function that has a meaning in the kernel, and no user's one."""
    return t.op == "apply" and str(t.data)[0] == "%" and str(t.data)[1:] in (*FIXED, RANDOM)


def maximum(*args: Term) -> Term:
    """The larger of terms; −∞ for none."""
    return args[0] if len(args) == 1 else Term("max", None, args) if args else BOT


def big(monoid: str, n: Term, body: Term) -> Term:
    """⊕ over indices below n; in the body the index is bound variable 0."""
    return Term("big", monoid, (n, body))


def combine(monoid: str, *args: Term) -> Term:
    """⊕ of terms."""
    return {"sum": add, "prod": mul, "max": maximum}[monoid](*args)


def rebuild(t: Term, args: Iterable[Term]) -> Term:
    """The same operation on other arguments; the same object if the arguments are the same objects."""
    return Term(t.op, t.data, tuple(args))


def open_body(body: Term, value: Term, depth: int = 0) -> Term:
    """The body of a binder with its variable replaced by a term that has no loose variables."""
    if value.loose:
        raise KernelError("only closed terms are put for bound variables")
    return _opened(body, depth, value, {})


# These call themselves, and are no functions inside of others: those would be garbage that only a collector finds.
def _opened(t: Term, k: int, value: Term, seen: dict[tuple[int, int], Term]) -> Term:
    if t.loose <= k:
        return t
    if t.op == "b":
        if not isinstance(t.data, int):
            raise KernelError("a bound variable has a number")
        return value if t.data == k else bound(t.data - 1)
    place = (id(t), k)
    found = seen.get(place)
    if found is None:
        if t.op == "big":
            args: tuple[Term, ...] = (_opened(t.args[0], k, value, seen), _opened(t.args[1], k + 1, value, seen))
        else:
            args = tuple([_opened(a, k, value, seen) for a in t.args])
        found = seen[place] = Term(t.op, t.data, args)
    return found


def close_body(t: Term, name: str) -> Term:
    """The body of a binder over the free index `name` of a term."""
    return _closed(t, 0, name, {})


def _closed(t: Term, k: int, name: str, seen: dict[tuple[int, int], Term]) -> Term:
    if name not in t.indices and t.loose <= k:
        return t
    if t.op == "idx":
        return bound(k) if t.data == name else t
    if not t.args:
        return bound(t.data + 1) if t.op == "b" and isinstance(t.data, int) and t.data >= k else t
    place = (id(t), k)
    found = seen.get(place)
    if found is None:
        if t.op == "big":
            args: tuple[Term, ...] = (_closed(t.args[0], k, name, seen), _closed(t.args[1], k + 1, name, seen))
        else:
            args = tuple([_closed(a, k, name, seen) for a in t.args])
        found = seen[place] = Term(t.op, t.data, args)
    return found


def substitute(t: Term, leaves: dict[tuple[str, Data], Term]) -> Term:
    """A term with free leaves (`idx`, `size`) replaced by terms without loose variables, simultaneously."""
    if any(v.loose for v in leaves.values()):
        raise KernelError("only closed terms are substituted")
    of_sizes = any(op == "size" for op, _ in leaves)
    return _substituted(t, leaves, None if of_sizes else {str(name) for _, name in leaves}, {})


def _substituted(t: Term, leaves: dict[tuple[str, Data], Term], only: set[str] | None, seen: dict[int, Term]) -> Term:
    """`substitute`; what has none of the indices `only` is as it is."""
    if only is not None and only.isdisjoint(t.indices):
        return t
    if t.op in ("idx", "size"):
        return leaves.get((t.op, t.data), t)
    if not t.args:
        return t
    found = seen.get(id(t))
    if found is None:
        found = seen[id(t)] = Term(t.op, t.data, tuple([_substituted(a, leaves, only, seen) for a in t.args]))
    return found


def exchanged(t: Term, equal: dict[Term, Term]) -> Term:
    """A term with closed parts replaced by closed terms that are equal to them (congruence)."""
    if any(u.loose for pair in equal.items() for u in pair):
        raise KernelError("only closed terms are exchanged")
    seen: dict[Term, Term] = dict(equal)

    def go(t: Term) -> Term:
        if t not in seen:
            seen[t] = rebuild(t, (go(a) for a in t.args)) if t.args else t
        return seen[t]

    return go(t)


def leaves(t: Term, op: str) -> AbstractSet[str]:
    """The names of the leaves of one kind in a term."""
    if op == "idx":
        return t.indices
    known = t._leaves
    if known is None:
        known = t._leaves = {}
    if op not in known:
        found: set[str] = set()
        seen: set[int] = set()
        stack = [t]
        while stack:
            u = stack.pop()
            if id(u) in seen:
                continue
            seen.add(id(u))
            if u.op == op:
                found.add(str(u.data))
            stack.extend(u.args)
        known[op] = frozenset(found) if found else _NO_NAMES
    return known[op]


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,499}", re.ASCII)
_OWN = re.compile(r"%([a-z]{1,8}|[a-z]{0,8}[0-9]{1,9}|[nlo] [A-Za-z_][A-Za-z0-9_]{0,499})|\$[0-9]{1,9}", re.ASCII)
RESERVED = frozenset(("exp", "log", "sqrt", "inv", "max", "min", "ite", "not", "and", "or", "true", "false", "real"))
"""Words that formulas are printed with. `result`, `result0`, … are the names that they give to outputs."""


def is_name(data: object) -> bool:
    """Whether data may be the name of a size, an axis, an input, a function or a program: an ASCII identifier.

    So two names are equal only if they have the same characters: there is no Unicode normalization, there are no
    look-alike letters or control characters, and no name can be read as a formula.

    >>> [is_name(text) for text in ("x", "s_x", "x\\0a", "B + C", "\u0445", "exp", "result1", "")]
    [True, True, False, False, False, False, False, False]
    """
    if not isinstance(data, str) or _IDENTIFIER.fullmatch(data) is None or data in RESERVED:
        return False
    return not (data.startswith("result") and (data == "result" or data[6:].isdigit()))


def is_name_in_proof(data: object) -> bool:
    """Whether data may be a name in a term of a proof. Proofs may also name indices and sizes that the kernel makes
    itself."""
    return is_name(data) or (isinstance(data, str) and _OWN.fullmatch(data) is not None)


def size_term(s: object) -> Term:
    """A size of a core program (a natural, a symbol, `["+", s, t]`, `["*", s, t]`) as a term."""
    if isinstance(s, bool):
        raise KernelError(f"not a size: {s!r}")
    if isinstance(s, int) and s >= 0:
        return num(s)
    if isinstance(s, str):
        if not is_name(s):
            raise KernelError(f"not the name of a size: {s[:80]!r}, expected an identifier")
        return size(s)
    if isinstance(s, (list, tuple)) and len(s) == 3 and s[0] in ("+", "*"):
        return (add if s[0] == "+" else mul)(size_term(s[1]), size_term(s[2]))
    raise KernelError(f"not a size: {s!r}")


_ARITY = {
    "num": 0, "bot": 0, "size": 0, "idx": 0, "b": 0, "true": 0, "false": 0, "inv": 1, "exp": 1, "log": 1, "sqrt": 1,
    "not": 1, "big": 2, "lt": 2, "le": 2, "eq": 2, "div": 2, "ite": 3,
}  # fmt: skip
_NAMED = {"size", "idx", "read", "holds", "apply"}


def term_data(t: Term) -> list[object]:
    """A term as plain data: `[operation, datum, [arguments]]`, numbers as text."""
    datum = t.data if isinstance(t.data, int) or t.data is None else str(t.data)
    return [t.op, datum, [term_data(a) for a in t.args]]


def parse_term(data: object) -> Term:
    """The term of plain data. Raises KernelError for anything else.

    >>> x = fn("lt", num(0), read("A", idx("q")))
    >>> parse_term(term_data(x)) == x
    True
    """
    if not isinstance(data, (list, tuple)) or len(data) != 3 or not isinstance(data[2], (list, tuple)):
        raise KernelError(f"not a term: {str(data)[:80]}")
    op, datum, parts = data
    if not isinstance(op, str) or op not in NUMERIC | LOGICAL:
        raise KernelError(f"no operation {str(op)[:80]}")
    args = tuple(parse_term(a) for a in parts)
    if len(args) != _ARITY.get(op, len(args)) or (op in ("add", "mul", "max", "and", "or") and not args):
        raise KernelError(f"{op} does not have {len(args)} arguments")
    logical = [a.op in LOGICAL for a in args]
    wanted = [op in ("and", "or", "not") or (op == "ite" and k == 0) for k in range(len(args))]
    if logical != wanted:
        raise KernelError(f"{op} of numbers and truth values mixed up")
    if op == "num":
        if not isinstance(datum, str) or not re.fullmatch(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?", datum, re.ASCII):
            raise KernelError(f"not a number: {str(datum)[:80]}")
        return num(_rational(datum))
    if op == "b":
        if not isinstance(datum, int) or isinstance(datum, bool) or datum < 0:
            raise KernelError(f"not a bound variable: {str(datum)[:80]}")
    elif op == "big":
        if datum not in MONOIDS:
            raise KernelError(f"no monoid {str(datum)[:80]}")
    elif (op in _NAMED and not is_name_in_proof(datum)) or (op not in _NAMED and datum is not None):
        raise KernelError(f"{op} does not go with {str(datum)[:80]!r}")
    return Term(op, datum, args)


def _rational(text: str) -> Fraction:
    top, _, bottom = text.partition("/")
    if bottom and not int(bottom):
        raise KernelError(f"not a number: {text}")
    return Fraction(int(top), int(bottom or 1))


_SIGNS = {"sum": "Σ", "prod": "Π", "max": "max"}
_INFIX = {"lt": "<", "le": "≤", "eq": "=", "and": "∧", "or": "∨"}


class Printer:
    """Prints terms as text for people. Different things never have the same name.

    `names` are those of all sizes, inputs and functions that occur, `sizes` those of sizes. The index along axis q is
    `i_q`, which is different from the size q. The variables of binders are i0, i1, … from the outside in. Both get
    another prefix if a name begins like that. An input without axes that has the name of a size x prints as `x[]`.
    """

    def __init__(self, names: Iterable[str] = (), sizes: Iterable[str] = ()) -> None:
        self.sizes = frozenset(sizes)
        self.names = frozenset(names) | self.sizes
        begun = next(b for b in map("i".__add__, map("_".__mul__, range(1, 600))) if not self._begins(b))
        self._index, self._variable = begun, begun[:-1]
        while any(name.startswith(self._variable) and name[len(self._variable) :].isdigit() for name in self.names):
            self._variable += "i"

    def _begins(self, start: str) -> bool:
        return any(name.startswith(start) for name in self.names)

    @staticmethod
    def of(*terms: Term) -> Printer:
        """A printer for the names in these terms."""
        names = (leaves(t, op) for t in terms for op in ("read", "holds", "apply"))
        return Printer(set().union(*names), set().union(*(leaves(t, "size") for t in terms)))

    def index(self, axis: str) -> str:
        """The index along an axis. An index that the kernel made, which begins with %, is printed as it is."""
        return axis if axis.startswith("%") else self._index + axis

    def variable(self, number: int) -> str:
        """The variable of the binder with this number, counted from the outside."""
        return f"{self._variable}{number}"

    def array(self, name: str, indices: Iterable[str]) -> str:
        """An element of an input."""
        inner = ",".join(indices)
        return f"{name}[{inner}]" if inner or name in self.sizes or not is_name(name) else name

    def show(self, t: Term, depth: int = 0, tight: int = 0) -> str:
        """A term under `depth` binders; `tight` is the precedence of the context (0 sum, 1 product, 2 argument)."""
        if t.op == "num":
            text = _number(t.data)
            return f"({text})" if tight and (text.startswith("-") or "/" in text) else text
        if t.op in ("size", "idx"):
            return str(t.data) if t.op == "size" else self.index(str(t.data))
        if t.op == "b":
            return self.variable(depth - 1 - t.data) if isinstance(t.data, int) and t.data < depth else f"^{t.data}"
        if t.op in ("read", "holds"):
            return self.array(str(t.data), (self.show(a, depth) for a in t.args))
        if t.op == "apply":
            name = str(t.data)
            name = name[1:] if has_own_name(t) and name[1:] not in self.names else name
            return f"{name}({','.join(self.show(a, depth) for a in t.args)})"
        if t.op == "add":
            text = " + ".join(self.show(a, depth, 1) for a in t.args)
            return f"({text})" if tight else text
        if t.op == "mul":
            text = self._product(t.args, depth)
            return f"({text})" if tight > 1 else text
        if t.op == "big":
            n, body = self.show(t.args[0], depth), self.show(t.args[1], depth + 1, 1)
            text = f"{_SIGNS[str(t.data)]}_{{{self.variable(depth)}<{n}}} {body}"
            return f"({text})" if tight else text
        if t.op in _INFIX:
            return "(" + f" {_INFIX[t.op]} ".join(self.show(a, depth, 1) for a in t.args) + ")"
        if t.op == "inv":
            text = f"1/{self.show(t.args[0], depth, 2)}"
            return f"({text})" if tight > 1 else text
        if t.op == "div":
            whole = t.args[1] == ONE
            by = "" if whole else f"/{self.show(t.args[1], depth, 2)}"
            return f"⌊{self.show(t.args[0], depth, 0 if whole else 2)}{by}⌋"
        if t.op == "bot":
            return "-∞"
        inner = ", ".join(self.show(a, depth) for a in t.args)
        return f"{t.op}({inner})" if t.args else t.op

    def _product(self, factors: Sequence[Term], depth: int) -> str:
        """Factors, with an inverse after others as a quotient. What follows a quotient multiplies all of it."""
        text, quotient = "", False
        for a in factors:
            if quotient:
                text = f"({text})"
            quotient = a.op == "inv" and bool(text)
            part = self.show(a.args[0] if quotient else a, depth, 2)
            text += ("/" if quotient else "·" if text else "") + part
        return text


def _number(value: Data) -> str:
    """A number as text. A long even number is written (k·2^n) with an odd k, which is exact and shorter."""
    text = str(value)
    if len(text) <= 40 or not isinstance(value, Fraction) or value.denominator != 1:
        return text
    n = (value.numerator & -value.numerator).bit_length() - 1
    return f"({value.numerator >> n}·2^{n})" if n else text


def show(t: Term, depth: int = 0, tight: int = 0) -> str:
    """A term as text for people, with the names that occur in it."""
    return Printer.of(t).show(t, depth, tight)
