"""Formulas in plain Unicode, as MathML.

Docstrings and pages write formulas as a terminal can show them: ``width(x) = γ^(-1/2) · sqrt(k(x, x) − kᵀ A⁻¹ k)``. The
site typesets them: `formula` parses one, `block` a few aligned lines, and `spans` finds formulas in a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import NamedTuple
from unicodedata import combining, normalize

__all__ = ["block", "formula", "pieces", "spans"]

SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀⁱⁿ", "0123456789+−Tin", strict=True))
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₐᵢⱼₖₙₛₜ", "0123456789+−aijknst", strict=True))
ACCENTS = {"\u0302": "^", "\u0303": "~", "\u0304": "¯"}
FUNCTIONS = {
    "cos", "cov", "det", "diag", "dist", "exp", "kl", "ln", "log", "max", "mean", "min", "pr", "rank", "reg", "sin",
    "tr", "var",
}  # fmt: skip
INFIX = '<mo form="infix" lspace="0.25em" rspace="0.25em">'
BREAKABLE = {"=", "≤", "≥", "&lt;", "&gt;", "≈", "∝", "+", "−", "·"}
SLASH = '<mo lspace="0.05em" rspace="0.05em">/</mo>'
LIMITS = {"max", "mean", "min"}
OPEN, CLOSE = "([{⟨⌈⌊", ")]}⟩⌉⌋"
RELATIONS = "=≤≥<>≈∝←→∈≠∼"
OPERATORS = RELATIONS + "+−-·×±∓/*,;:.…|‖∂∇∪∩∞%?!"
FRACTIONS = {"½": ("1", "2"), "¼": ("1", "4"), "¾": ("3", "4"), "⅓": ("1", "3"), "⅔": ("2", "3")}
LETTER = rf"(?:(?![{''.join(SUPERSCRIPTS)}{''.join(SUBSCRIPTS)}{''.join(FRACTIONS)}])[^\W\d_])"
TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<code>`[^`]+`)|(?P<number>[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?(?:e[-−+]?[0-9]+)?)"
    rf"|(?P<word>{LETTER}+)|(?P<other>.)"
)
GREEK = re.compile(r"[\u0391-\u03c9\u03d1\u03d5\u03f5]")
CODE = re.compile(
    r'>>>|"|#|─|►|^\s*(class|def|import|from|for|return|with|async|await|pip|python) |\(\)|\w\.\w+\(', re.MULTILINE
)
MATHEMATICS = re.compile(r"[\u0391-\u03c9≤≥∈∞∝←‖Σ½⟨⌈·²³ᵀ⁻⁺ⁱ₀-₉ᵢⱼₜₛ\u0302-\u0304]| [=<>−+] |\^")


class _Node(NamedTuple):
    """A piece of MathML; `kind` says how it joins its neighbors."""

    kind: str  # "atom", "operator", "function", "sum", "text", "open", "close"
    text: str
    inner: str | None = None
    """The content of a group without its parentheses, for fractions, roots and scripts."""

    is_spaced: bool = False
    """Whether a space comes before it in the source."""


class _Unreadable(ValueError):
    """The text is not a formula."""


def formula(text: str, *, is_display: bool = False) -> str | None:
    """MathML of a formula in plain Unicode; None if it cannot be read as one."""
    try:
        row = _Parser(text, is_display=is_display).parse()
    except _Unreadable:
        return None
    display = ' display="block"' if is_display else ""
    return f"<math{display}><mrow>{row}</mrow></math>"


def pieces(text: str) -> list[str] | None:
    """MathML of a formula in a sentence, in parts between which a line may end; None if it cannot be read as one."""
    try:
        nodes = _Parser(text, is_display=False).nodes()
    except _Unreadable:
        return None
    found: list[list[_Node]] = [[]]
    n_fences = 0
    for node in nodes:
        n_fences += node.kind == "fence"
        can_break = node.kind == "operator" and node.is_spaced and bool(found[-1]) and not n_fences % 2
        if can_break and node.text[4:-5] in BREAKABLE:
            found.append([node._replace(text=node.text.replace("<mo>", INFIX))])
        else:
            found[-1].append(node)
    return [f"<math><mrow>{''.join(_joined(part))}</mrow></math>" for part in found]


def block(text: str) -> str | None:
    """MathML of an indented block: a line each row, aligned where the source is; None if the block is not a formula."""
    if CODE.search(text) or not MATHEMATICS.search(text):
        return None
    lines = [line.strip() for line in text.strip("\n").split("\n") if line.strip()]
    try:
        if len(lines) == 1:
            cells = re.split(r" {2,}", lines[0])
            row = '<mspace width="1.5em"></mspace>'.join(_Parser(cell, is_display=True).parse() for cell in cells)
            return f'<math display="block"><mrow>{row}</mrow></math>'
        rows = [[_Parser(cell, is_display=True).parse() for cell in _cells(line)] for line in lines]
    except _Unreadable:
        return None
    widest = max(map(len, rows))
    table = "".join(f"<mtr>{_row_of_table(row, widest)}</mtr>" for row in rows)
    return f'<math display="block"><mtable displaystyle="true">{table}</mtable></math>'


def _row_of_table(row: list[str], widest: int) -> str:
    if len(row) == 1 and widest > 1:
        return f'<mtd columnspan="{widest}"><mrow>{row[0]}</mrow></mtd>'
    return "".join(f"<mtd><mrow>{cell}</mrow></mtd>" for cell in row)


def _cells(line: str) -> list[str]:
    """Parts of a line that are aligned with those of other lines: at wide spaces and before its first relation."""
    cells = re.split(r" {2,}", line)
    depth = 0
    for place, char in enumerate(cells[0]):
        depth += (char in OPEN) - (char in CLOSE)
        if depth == 0 and char in RELATIONS and place > 0 and cells[0][place - 1] == " ":
            return [cells[0][:place].strip(), cells[0][place:], *cells[1:]]
    return cells


class _Parser:
    """Recursive descent over the tokens of one formula."""

    def __init__(self, text: str, *, is_display: bool) -> None:
        self.is_display = is_display
        self._tokens: list[tuple[str, str, bool]] = []
        is_spaced = False
        for match in TOKEN.finditer(_decomposed(text)):
            kind = match.lastgroup or "other"
            if kind == "space":
                is_spaced = True
                continue
            self._tokens.append((kind, match[0], is_spaced))
            is_spaced = False
        self._at = 0

    def parse(self) -> str:
        return "".join(_joined(self.nodes()))

    def nodes(self) -> list[_Node]:
        """The parts of the whole formula."""
        return self._nodes(until="")

    def _peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._tokens[place][1] if place < len(self._tokens) else ""

    def _is_spaced(self, ahead: int) -> bool:
        return self._tokens[self._at + ahead][2]

    def _row(self, until: str) -> str:
        """Everything up to the closing sign, which stays to be read."""
        return "".join(_joined(self._nodes(until)))

    def _nodes(self, until: str) -> list[_Node]:
        nodes: list[_Node] = []
        while self._at < len(self._tokens) and self._peek() != until:
            if self._peek() in CLOSE:
                if until:
                    raise _Unreadable(self._peek())
                raise _Unreadable("unbalanced")
            nodes.extend(self._node())
        if until and self._peek() != until:
            raise _Unreadable(f"no {until}")
        return _with_fractions(nodes) if self.is_display else nodes

    def _node(self) -> Iterator[_Node]:
        kind, text, is_spaced = self._tokens[self._at]
        self._at += 1
        if kind == "code":
            yield _Node("text", f'<mi class="code" mathvariant="normal">{escape(text[1:-1])}</mi>', is_spaced=is_spaced)
        elif kind == "word":
            yield from self._word(text, is_spaced=is_spaced)
        elif kind == "number":
            yield self._scripted(f"<mn>{text}</mn>", is_spaced=is_spaced)
        elif text in FRACTIONS:
            over, under = FRACTIONS[text]
            yield self._scripted(f"<mfrac><mn>{over}</mn><mn>{under}</mn></mfrac>", is_spaced=is_spaced)
        elif text in OPEN:
            yield self._group(text, is_spaced=is_spaced)
        elif text in "|‖" or text in OPERATORS:
            yield self._operator(text, is_spaced=is_spaced)
        elif text in "′'":
            yield _Node("atom", "<mo>′</mo>")
        elif text in SUPERSCRIPTS or text in SUBSCRIPTS or text in "_^" or combining(text):
            raise _Unreadable(text)
        else:
            yield _Node("operator", f"<mo>{escape(text)}</mo>", is_spaced=is_spaced)

    def _operator(self, text: str, *, is_spaced: bool) -> _Node:
        if text in "|‖":
            body = f'<mo stretchy="false">{text}</mo>'
            node = self._scripted(body, is_spaced=is_spaced)
            return _Node("fence", node.text, is_spaced=is_spaced)
        sign = {"-": "−", "*": "∗"}.get(text, text)
        if text in "*" and not is_spaced:
            return _Node("atom", f"<msup><mrow></mrow><mo>{sign}</mo></msup>")
        if text in "+−-←" and self._peek() == "=":
            self._at += 1
            return _Node("operator", f"<mo>{sign}=</mo>", is_spaced=is_spaced)
        return _Node("operator", SLASH if sign == "/" else f"<mo>{escape(sign)}</mo>", is_spaced=is_spaced)

    def _group(self, opening: str, *, is_spaced: bool) -> _Node:
        closing = CLOSE[OPEN.index(opening)]
        inner = self._row(until=closing)
        self._at += 1
        stretchy = "" if self.is_display else ' stretchy="false"'
        text = f"<mrow><mo{stretchy}>{opening}</mo>{inner}<mo{stretchy}>{closing}</mo></mrow>"
        node = self._scripted(text, is_spaced=is_spaced)
        return node._replace(inner=inner if opening == "(" and node.text == text else None)

    def _word(self, text: str, *, is_spaced: bool) -> Iterator[_Node]:
        if text == "sqrt" and self._peek() == "(":
            self._at += 1
            inner = self._row(until=")")
            self._at += 1
            yield self._scripted(f"<msqrt><mrow>{inner}</mrow></msqrt>", is_spaced=is_spaced)
        elif text == "Σ":
            yield self._sum(is_spaced=is_spaced)
        elif text.lower() in FUNCTIONS:
            node = self._scripted(f"<mi>{text}</mi>", is_spaced=is_spaced, is_limit=text in LIMITS)
            yield node._replace(kind="sum" if text in LIMITS else "function")
        elif _are_letters(text) and not self._is_hyphenated():
            for place, letter in enumerate(text):
                is_last = place == len(text) - 1
                body = f"<mi>{letter}</mi>"
                spaced = is_spaced and place == 0
                yield self._scripted(body, is_spaced=spaced) if is_last else _Node("atom", body, is_spaced=spaced)
        else:
            yield self._name(text, is_spaced=is_spaced)

    def _is_hyphenated(self) -> bool:
        """Whether a hyphen and a word follow, as in R-sub-Gaussian."""
        return self._peek() == "-" and self._peek(1).isalpha() and len(self._peek(1)) > 2 and not self._is_spaced(0)

    def _name(self, text: str, *, is_spaced: bool) -> _Node:
        """A word, such as `width`, or a name of Python, such as `noise_scale`."""
        name = text
        while (
            self._peek() in ("-", "'") and self._peek(1).isalpha() and not self._is_spaced(0) and not self._is_spaced(1)
        ):
            text = name = f"{name}{self._peek()}{self._peek(1)}"
            self._at += 2
        while self._peek() == "_" and self._peek(1)[:1].isalpha() and len(self._peek(1)) > 1:
            name += "_" + self._peek(1)
            self._at += 2
        if name != text:
            return _Node("text", f'<mi class="code">{escape(name)}</mi>', is_spaced=is_spaced)
        return self._scripted(f"<mi>{escape(text)}</mi>", is_spaced=is_spaced)._replace(kind="text")

    def _sum(self, *, is_spaced: bool) -> _Node:
        below = self._script("_")
        body = "<mo>∑</mo>"
        if below is not None:
            tag = "munder" if self.is_display else "msub"
            body = f"<{tag}>{body}{below}</{tag}>"
        return _Node("sum", body, is_spaced=is_spaced)

    def _scripted(self, body: str, *, is_spaced: bool, is_limit: bool = False) -> _Node:
        """An atom with its accents, primes, indices and powers."""
        while self._peek() and combining(self._peek()[0]):
            accent = self._peek()
            if accent not in ACCENTS:
                raise _Unreadable(accent)
            body = f'<mover accent="true">{body}<mo stretchy="false">{ACCENTS[accent]}</mo></mover>'
            self._at += 1
        primes = ""
        while self._peek() in ("′", "'"):
            primes += "<mo>′</mo>"
            self._at += 1
        below, above = self._script("_"), self._script("^")
        if below is None:
            below = self._script("_")
        if primes:
            above = f"<mrow>{primes}{above or ''}</mrow>"
        if below is not None and above is not None:
            body = f"<msubsup>{body}{below}{above}</msubsup>"
        elif below is not None:
            tag = "munder" if is_limit and self.is_display else "msub"
            body = f"<{tag}>{body}{below}</{tag}>"
        elif above is not None:
            body = f"<msup>{body}{above}</msup>"
        return _Node("atom", body, is_spaced=is_spaced)

    def _script(self, sign: str) -> str | None:
        """An index or a power: in small letters, after a sign, or in parentheses after it."""
        small = SUBSCRIPTS if sign == "_" else SUPERSCRIPTS
        if self._peek() in small:
            found = ""
            while self._peek() in small:
                plain = small[self._peek()]
                tag = "mn" if plain.isdigit() else "mi" if plain.isalpha() else "mo"
                found += f"<{tag}>{plain}</{tag}>"
                self._at += 1
            return f"<mrow>{found}</mrow>"
        if self._peek() != sign or not self._peek(1):
            return None
        self._at += 1
        if self._peek() in ("(", "{"):
            closing = CLOSE[OPEN.index(self._peek())]
            self._at += 1
            was_display, self.is_display = self.is_display, False
            found = self._row(until=closing)
            self.is_display = was_display
            self._at += 1
            return f"<mrow>{found}</mrow>"
        found = ""
        if self._peek() in ("−", "-", "+") and self._peek(1):
            found = f"<mo>{self._peek().replace('-', '−')}</mo>"
            self._at += 1
        return f"<mrow>{found}{self._single()}</mrow>"

    def _single(self) -> str:
        """One token as an index or a power."""
        kind, text, _ = self._tokens[self._at]
        self._at += 1
        if kind == "word" and (_are_letters(text) or len(text) <= 2):
            return "".join(f"<mi>{letter}</mi>" for letter in text)
        if kind == "word":
            return f"<mi>{escape(text)}</mi>"
        if kind == "number":
            return f"<mn>{text}</mn>"
        if text in FRACTIONS:
            return "<mn>{}</mn><mo>/</mo><mn>{}</mn>".format(*FRACTIONS[text])
        if text == "*":
            return "<mo>∗</mo>"
        raise _Unreadable(text)


def _decomposed(text: str) -> str:
    """The text with the accents of formulas as signs of their own; those of names, as in Matérn, stay."""
    return "".join(
        apart if len(apart := normalize("NFD", letter)) == 2 and apart[1] in ACCENTS else letter for letter in text
    )


def _are_letters(text: str) -> bool:
    """Whether a word is a product of letters: one letter, capitals, Greek, one letter twice."""
    if len(text) == 1 or GREEK.search(text):
        return True
    if len(text) <= 3 and text.isupper():
        return True
    return len(text) == 2 and (text[0] == text[1] or text in ("eT", "nD", "iT"))


def _with_fractions(nodes: list[_Node]) -> list[_Node]:
    """The nodes with every division as a fraction."""
    found: list[_Node] = []
    place = 0
    while place < len(nodes):
        node = nodes[place]
        if node.kind == "operator" and node.text == SLASH and found and place + 1 < len(nodes):
            left = _operand_before(found, is_spaced=node.is_spaced)
            right = _operand_after(nodes, place + 1)
            if left and right:
                over, under = (_bare(found[-left:]), _bare(nodes[place + 1 : place + 1 + right]))
                first = found[-left]
                del found[-left:]
                found.append(_Node("atom", f"<mfrac>{over}{under}</mfrac>", is_spaced=first.is_spaced))
                place += 1 + right
                continue
        found.append(node)
        place += 1
    return found


def _operand_before(nodes: list[_Node], *, is_spaced: bool) -> int:
    """Number of nodes that a division divides: a product before ` / `, its unspaced end before `/`."""
    count, n_fences = 0, 0
    for node in reversed(nodes):
        n_fences += node.kind == "fence"
        if node.kind not in ("atom", "function", "fence") and not n_fences % 2:
            break
        count += 1
        if not is_spaced and node.is_spaced and not n_fences % 2:
            break
    return count


def _operand_after(nodes: list[_Node], place: int) -> int:
    """Number of nodes by which is divided: up to the first space that follows, a sum with its product."""
    count = 0
    for node in nodes[place:]:
        is_first = count == 0
        if node.kind == "sum" and is_first:
            count += 1
            continue
        is_apart = node.is_spaced and nodes[place + count - 1].kind not in ("sum", "function")
        if node.kind not in ("atom", "function") or (not is_first and is_apart):
            break
        count += 1
    return count


def _bare(nodes: list[_Node]) -> str:
    """Nodes as one row; parentheses around all of it are left out."""
    if len(nodes) == 1 and nodes[0].inner is not None:
        return f"<mrow>{nodes[0].inner}</mrow>"
    return f"<mrow>{''.join(_joined(nodes))}</mrow>"


def _joined(nodes: list[_Node]) -> Iterator[str]:
    """The nodes with the spaces that a formula needs: none beside operators, wider ones beside words."""
    before = _Node("operator", "")
    for node in nodes:
        kinds = (before.kind, node.kind)
        if node.is_spaced and "text" in kinds and "operator" not in kinds:
            yield '<mspace width="0.28em"></mspace>'
        elif (node.is_spaced or node.kind == "function") and set(kinds) <= {"atom", "sum", "function"}:
            yield '<mspace width="0.17em"></mspace>'
        yield node.text
        before = node


STRONG = re.compile(
    r"[\u0391-\u03c9ϑϕϵ≤≥√∈∞∝‖⟨⟩⌈⌉∫∑½·⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀⁱ₀-₉ₜᵢⱼₛ\u0302-\u0304]|sqrt\(|\b[A-Za-z]_[A-Za-z0-9{]|\b(?:max|min)_[a-z{]|[\w)\]]\^[({*½\w]"
)
"""What only a formula has."""

OF_LETTERS = r"\([A-Za-z](?:, [A-Za-z])*\)"
WEAK = re.compile(
    rf"[+−=<>·/×±]|[0-9][0-9,.]*|[B-HJ-Zb-z](?:{OF_LETTERS})?|(?:ln|exp|min|max|det|log)|\([0-9A-Za-z]/[0-9A-Za-z]\)"
)
"""A token that joins a formula beside it; `a`, `A` and `I` are words, too."""

JOINING = set("+−=<>·/×±≤≥∈∝≈")
LONE = re.compile(rf"[F-HJ-VX-Zb-z](?:{OF_LETTERS})?")
"""A letter that is a symbol where it stands alone, as is k(x, z); A to E and W name appendices, weights, workloads."""

ENGLISH = re.compile(rf"{LETTER}{{4,}}")
KNOWN = {
    "mean", "width", "sqrt", "gram", "score", "reward", "scale", "exploration", "diag", "rank", "rewards",
    "differences", "features", "gain", "offset", "residual",
}  # fmt: skip
UNITS = {"s", "h", "m", "g", "k"}
NUMBER = re.compile(r"[0-9.,]+(?:e[-+]?[0-9]+)?")
LONGEST_GROUP = 90


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the formulas of a sentence begin and end.

    >>> [text[start:end] for text in ["With γ > 0, sqrt(2 ln T) is at least 1."] for start, end in spans(text)]
    ['γ > 0', 'sqrt(2 ln T)']
    """
    tokens = list(_chunks(text))
    found: list[tuple[int, int]] = []  # first and last token of each
    for place, (start, end) in enumerate(tokens):
        if STRONG.search(text, start, end) and not (found and found[-1][1] >= place):
            first, last = _extended(text, tokens, place)
            if found and found[-1][1] >= first:
                first = found.pop()[0]
            found.append((first, last))
    taken = {place for first, last in found for place in range(first, last + 1)}
    found += [
        (place, place)
        for place, one in enumerate(tokens)
        if place not in taken and LONE.fullmatch(text, *one) and not _is_unit(text, tokens, place)
    ]
    for first, last in sorted(found):
        yield tokens[first][0], tokens[last][1]


def _is_unit(text: str, tokens: list[tuple[int, int]], place: int) -> bool:
    """Whether a letter is the unit of the number before it, as in 0.4 s."""
    before = text[slice(*tokens[place - 1])] if place else ""
    return text[slice(*tokens[place])] in UNITS and bool(NUMBER.fullmatch(before))


def _extended(text: str, tokens: list[tuple[int, int]], place: int) -> tuple[int, int]:
    """First and last token of the formula around a token."""

    def at(index: int) -> str:
        return text[slice(*tokens[index])] if 0 <= index < len(tokens) else ""

    def touches(index: int) -> bool:
        """Whether only a space lies between a token and the one after it."""
        return 0 <= index < len(tokens) - 1 and text[tokens[index][1] : tokens[index + 1][0]].strip(" \n") == ""

    first = last = place
    while touches(last) and (
        (at(last + 1) in JOINING and touches(last + 1))
        or (at(last) in JOINING)
        or STRONG.search(at(last + 1))
        or (WEAK.fullmatch(at(last + 1)) and not _is_unit(text, tokens, last + 1))
    ):
        last += 1
    while touches(first - 1) and (
        (at(first - 1) in JOINING and touches(first - 2)) or at(first) in JOINING or WEAK.fullmatch(at(first - 1))
    ):
        first -= 1
    while last > place and (at(last) in JOINING or at(last) in ("ln", "exp", "min", "max")):
        last -= 1
    while first < place and at(first) in JOINING:
        first += 1
    return first, last


def _chunks(text: str) -> Iterator[tuple[int, int]]:
    """Words of a sentence without the punctuation around them; what is in parentheses stays in one piece, if short."""
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        end = place
        while end < len(text) and not text[end].isspace():
            if text[end] in "([{⟨⌈":
                closing = _closing(text, end)
                if closing is None:
                    break
                end = closing
            end += 1
        if end == place:  # a parenthesis that opens a remark
            place += 1
            continue
        start, stop = place, end
        while stop > start and text[stop - 1] in ".,;:!?\"')]}":
            if text[stop - 1] in ")]}" and text[start:stop].count("([{"[")]}".index(text[stop - 1])]) >= text[
                start:stop
            ].count(text[stop - 1]):
                break
            stop -= 1
        while start < stop and text[start] in "\"'":
            start += 1
        if start < stop:
            yield start, stop
        place = end


def _closing(text: str, place: int) -> int | None:
    """Where the parenthesis at a place is closed, if what lies between can be part of a formula."""
    depth = 0
    for index in range(place, min(len(text), place + LONGEST_GROUP)):
        depth += (text[index] in OPEN) - (text[index] in CLOSE)
        if depth == 0:
            inner = text[place + 1 : index]
            has_words = any(word not in KNOWN for word in ENGLISH.findall(inner)) or "\x02" in inner
            is_power = text[index + 1 : index + 2] == "^"
            is_apart = " " in inner and not is_power and not _is_mathematical(text, place, inner)
            return None if has_words or is_apart else index
    return None


def _is_mathematical(text: str, place: int, inner: str) -> bool:
    """Whether a group with spaces belongs to a formula: something directly before it, or operators in it."""
    if place and not text[place - 1].isspace():
        return True
    return bool(re.search(r"[+−=·/≤≥]|, ", inner)) and len(inner) < 60 and not re.search(r"[a-z]{2} [a-z]{2}", inner)
