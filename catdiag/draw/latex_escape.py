"""Texts for LaTeX: every letter as stock pdflatex with amssymb prints it, in text mode."""

from __future__ import annotations

import unicodedata

_PLAIN = {
    "\\": r"$\backslash$", "{": r"$\{$", "}": r"$\}$", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"$\sim$", "^": r"$\wedge$", "<": "$<$", ">": "$>$", "|": "$|$", '"': "''", "`": "{`}",
    "–": "--", "—": "---", "‘": "`", "’": "'", "“": "``", "”": "''", "\u00a0": r"\ ", "…": r"\ldots{}",
    "ß": r"{\ss}", "æ": r"{\ae}", "Æ": r"{\AE}", "œ": r"{\oe}", "Œ": r"{\OE}", "ø": r"{\o}", "Ø": r"{\O}",
    "ł": r"{\l}", "Ł": r"{\L}", "ı": r"{\i}", "§": r"$\mathsection$", "¶": r"$\mathparagraph$", "°": r"$^\circ$",
    "-": "{-}", ",": "{,}", "'": "{'}", "?": "{?}", "!": "{!}",
}  # fmt: skip
"""Characters with a meaning in LaTeX, characters that would form ligatures with a neighbor, and letters of text."""

_MATH = {
    "−": "-", "·": r"\cdot", "⋅": r"\cdot", "×": r"\times", "÷": r"\div", "±": r"\pm", "∓": r"\mp", "√": r"\surd",
    "∞": r"\infty", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx", "≡": r"\equiv", "≅": r"\cong",
    "≪": r"\ll", "≫": r"\gg", "∝": r"\propto", "∼": r"\sim", "′": r"{}^{\prime}", "″": r"{}^{\prime\prime}",
    "←": r"\leftarrow", "→": r"\rightarrow", "↔": r"\leftrightarrow", "↑": r"\uparrow", "↓": r"\downarrow",
    "⇐": r"\Leftarrow", "⇒": r"\Rightarrow", "⇔": r"\Leftrightarrow", "↦": r"\mapsto", "⊸": r"\multimap",
    "∧": r"\wedge", "∨": r"\vee", "¬": r"\neg", "∀": r"\forall", "∃": r"\exists", "∈": r"\in", "∉": r"\notin",
    "∅": r"\emptyset", "∪": r"\cup", "∩": r"\cap", "⊂": r"\subset", "⊆": r"\subseteq", "⊃": r"\supset",
    "⊇": r"\supseteq", "⊕": r"\oplus", "⊖": r"\ominus", "⊗": r"\otimes", "⊙": r"\odot", "⊤": r"\top", "⊥": r"\bot",
    "∘": r"\circ", "•": r"\bullet", "∗": r"\ast", "⋆": r"\star", "∂": r"\partial", "∇": r"\nabla",
    "∑": r"\Sigma", "∏": r"\Pi", "∫": r"\smallint", "ℓ": r"\ell", "…": r"\ldots", "⋯": r"\cdots", "⋮": r"\vdots",
    "⌈": r"\lceil", "⌉": r"\rceil", "⌊": r"\lfloor", "⌋": r"\rfloor", "⟨": r"\langle", "⟩": r"\rangle",
    "‖": r"\|", "∣": r"\mid", "⊢": r"\vdash", "⊨": r"\models", "⊑": r"\sqsubseteq", "▷": r"\triangleright",
    "◁": r"\triangleleft", "□": r"\square", "■": r"\blacksquare", "△": r"\triangle", "◇": r"\Diamond", "∎": r"\square",
    "ℝ": r"\mathbb{R}", "ℕ": r"\mathbb{N}", "ℤ": r"\mathbb{Z}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}",
    "⟦": r"[\![", "⟧": r"]\!]", "✓": r"\checkmark", "¼": r"\frac14", "½": r"\frac12", "¾": r"\frac34",
    "µ": r"\mu", "ϵ": r"\epsilon", "ε": r"\varepsilon", "ϕ": r"\phi", "φ": r"\varphi", "ϑ": r"\vartheta",
    "ς": r"\varsigma", "ο": "o", "⁺": "^{+}", "⁻": "^{-}", "₊": "_{+}", "₋": "_{-}", "ⁿ": "^{n}", "ⁱ": "^{i}",
}  # fmt: skip

_GREEK = {
    "GAMMA", "DELTA", "THETA", "XI", "PI", "SIGMA", "PHI", "PSI", "OMEGA", "ALPHA", "BETA", "ZETA", "ETA", "IOTA",
    "KAPPA", "MU", "NU", "RHO", "TAU", "CHI", "UPSILON", "LAMDA", "EPSILON",
}  # fmt: skip
_TALL_GREEK = {"GAMMA", "DELTA", "THETA", "XI", "PI", "SIGMA", "PHI", "PSI", "OMEGA", "UPSILON", "LAMDA"}

_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d", "\u0327": "c", "\u0331": "b",
}  # fmt: skip


def escaped(text: str) -> str:
    """A text as LaTeX prints it in text mode. A letter without a glyph in stock LaTeX is its code in small digits.

    >>> print(escaped("a_b ≤ 50% · λ"))
    a\\_b $\\leq$ 50\\% $\\cdot$ $\\lambda$
    >>> print(escaped("é"), escaped("愛"))
    \\'{e} {\\tiny 611B}
    """
    return "".join(_letter(c, n > 0 and text[n - 1] == " ") for n, c in enumerate(text))


def _letter(letter: str, after_space: bool) -> str:
    if letter == " ":
        return r"\ " if after_space else " "
    if letter in _PLAIN:
        return _PLAIN[letter]
    if " " < letter <= "~":
        return letter
    if letter in _MATH:
        return f"${_MATH[letter]}$"
    if letter in "\t\n\r":
        return r"\ "
    return _greek(letter) or _accented(letter) or _raised(letter) or f"{{\\tiny {ord(letter):04X}}}"


def _greek(letter: str) -> str:
    """Greek letters by their Unicode names; capitals that look Latin are Latin."""
    words = unicodedata.name(letter, "").split()
    if len(words) != 4 or words[0] != "GREEK" or words[2] != "LETTER" or words[3] not in _GREEK:
        return ""
    name = words[3].lower().replace("lamda", "lambda")
    if words[1] == "SMALL":
        return f"$\\{name}$"
    if words[3] in _TALL_GREEK:
        return f"$\\mathsf{{\\{name.capitalize()}}}$"
    return {"ETA": "H", "RHO": "P", "CHI": "X"}.get(words[3], words[3][0])


def _accented(letter: str) -> str:
    """A Latin letter with an accent; i and j lose their dots."""
    parts = unicodedata.normalize("NFD", letter)
    if len(parts) != 2 or not parts[0].isascii() or parts[1] not in _ACCENTS:
        return ""
    below = parts[1] in "\u0323\u0327\u0331"
    base = {"i": r"\i", "j": r"\j"}.get(parts[0], parts[0]) if not below else parts[0]
    return f"\\{_ACCENTS[parts[1]]}{{{base}}}"


def _raised(letter: str) -> str:
    """Superscript and subscript digits."""
    kind, _, digit = unicodedata.decomposition(letter).partition(" ")
    if kind not in ("<super>", "<sub>") or not digit.isalnum() or " " in digit:
        return ""
    plain = chr(int(digit, 16))
    if not plain.isascii() or not plain.isalnum():
        return ""
    return f"${'^' if kind == '<super>' else '_'}{{{plain}}}$"
