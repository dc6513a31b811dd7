"""An answer to the fixed question -> why it is nonsense, or nothing.

A verdict takes a model out of service, and the same answer comes again at temperature 0. So each row wants more than one sign
where a healthy model may show one, and what cannot be judged is no nonsense: reasoning that was cut, another script, another
language.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sparkd.model.sanity import ECHO, Said

REPLACEMENT = "\ufffd"
RUN_CHARS = 16
"""The shortest text in which repetition is one: `----` and `!!!!` are no answer, and no loop either."""
LONGEST_CYCLE = 40
"""Characters of a cycle: some words."""
CYCLES = 3
SHARE = 0.6
"""The part of a text that its cycle fills: an answer may be followed by a loop, which begins after a few tokens."""
FEW_WORDS, MANY = 3, 12
"""So few different words among so many are a loop without a strict order: `the the, the the the, the`."""
FEW_SIGNS, LONG = 4, 24
"""The same of characters, for what has no words."""
MIXED = 2
"""Words of two alphabets that make a salad; one alone may be a name."""
MANY_SCRIPTS = 4

JOINED = frozenset({"HAN", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"})
"""Scripts that are written without blanks, or with endings right after a foreign name: `法国的首都是Paris` is one word of none."""
ALIKE = {
    **dict.fromkeys(
        ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "BOPOMOFO", "HALFWIDTH"), "HAN"
    ),
    "FULLWIDTH": "LATIN",
}
SYMBOLS = frozenset(
    {"MICRO", "OHM", "KELVIN", "ANGSTROM", "SCRIPT", "DOUBLE-STRUCK", "MODIFIER", "FEMININE", "MASCULINE"}
)
"""First words of the names of letters that stand beside any script."""

_PARIS = (
    *("paris", "parij", "parig", "pariz", "pariis", "paryz", "parys", "parízs", "Париж", "Парыж", "Париз", "Παρίσι"),
    *("巴黎", "パリ", "파리", "باريس", "پاریس", "پيرس", "פריז", "पेरिस", "পারি", "প্যারিস", "பாரிஸ்", "పారిస్", "ಪ್ಯಾರಿಸ್"),
    *("പാരിസ്", "પેરિસ", "ਪੈਰਿਸ", "ปารีส", "ປາຣີ", "ប៉ារីស", "ပါရီ", "პარიზ", "Փարիզ", "ፓሪስ"),
)
_TOPIC = (
    *("repeat", "exactly", "word", "capital", "france", "french", "user", "phrase", "number", "instruction", "request"),
    *("wiederhol", "wörter", "frankreich", "hauptstadt", "répét", "capitale", "francia", "repit", "palabra", "parola"),
    *(
        "повтор",
        "слов",
        "столиц",
        "франц",
        "пользовател",
        "重复",
        "重複",
        "单词",
        "單詞",
        "首都",
        "法国",
        "法國",
        "用户",
        "用戶",
    ),
    *(
        "繰り返",
        "単語",
        "フランス",
        "ユーザ",
        "반복",
        "단어",
        "수도",
        "프랑스",
        "사용자",
        "كرر",
        "عاصمة",
        "فرنسا",
        "המיל",
        "צרפת",
    ),
    *("राजधानी", "फ्रांस", "शब्द", "เมืองหลวง", "ฝรั่งเศส"),
)
"""What a model speaks of that thinks about this question aloud."""
_THINKING = re.compile(
    r"\s*(?:<\|?(?:think|thinking|reasoning|seed:think|thought)\|?>|\[THINK\]|◁think▷|<\|channel\|>analysis)", re.I
)
_THOUGHT = re.compile(
    r"</(?:think|thinking|reasoning|seed:think|thought)>|\[/THINK\]|◁/think▷|<\|channel\|>final", re.I
)


def plain(text: str) -> str:
    """Small letters without accents, digits of every script as ASCII."""
    found = []
    for char in unicodedata.normalize("NFKD", text.casefold()):
        if not unicodedata.combining(char):
            digit = unicodedata.decimal(char, None)
            found.append(char if digit is None else str(digit))
    return "".join(found)


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Words at their beginning, as `comparison` is no Paris; numbers as a whole; other scripts know no blanks."""
    plains = sorted({plain(word) for word in words})
    return re.compile("|".join(f"(?<![a-z]){w}" if w.isascii() else w for w in plains if not w.isdigit()) + _NUMBERS)


_NUMBERS = "".join(rf"|(?<!\d){word}(?!\d)" for word in ECHO if word.isdigit())
ANSWERS, TOPIC = _any_of((*ECHO, *_PARIS)), _any_of(_TOPIC)


@dataclass(frozen=True, slots=True)
class Read:
    """An answer, taken apart once."""

    thought: str
    """What is reasoning, in its own field or by its mark in the text."""
    text: str
    cut: bool
    thinking: bool
    """It was cut in the middle of its reasoning."""
    answers: bool
    """A given word or the fact is in it."""
    hidden: bool
    """This engine takes reasoning out of the text: tokens may not be seen."""

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(one for one in (self.thought, self.text) if one)


def nonsense(said: Said, *, chat: bool = True, hidden: bool = False) -> str:
    """Why this answer is none, in one clause; empty for one that makes sense, or that cannot be judged.

    `chat`: it was asked as a chat; else a text was continued, whose first line is the answer. `hidden`: the engine was
    started with a parser that takes reasoning out of the text.
    """
    read = _read(said, chat, hidden)
    return next((why for row in ROWS if (why := row(read))), "")


def _read(said: Said, chat: bool, hidden: bool) -> Read:
    text, thought = said.text, said.reasoning
    if not chat:
        text = text.lstrip().partition("\n")[0]
    unparsed = _THINKING.match(text) if chat and not thought.strip() else None
    if unparsed is not None:
        end = _THOUGHT.search(text)
        thought, text = (text[unparsed.end() : end.start()], text[end.end() :]) if end else (text[unparsed.end() :], "")
    # What was cut may end with a part of a character.
    thought, text = (one.strip().rstrip(REPLACEMENT) if said.cut else one.strip() for one in (thought, text))
    whole = plain(f"{thought}\n{text}")
    thinking = said.cut and bool(thought or unparsed) and not text
    return Read(thought, text, said.cut, thinking, ANSWERS.search(whole) is not None, hidden)


# ----------------------------------------------------------------------------------------------------------------- rows


def _empty(read: Read) -> str:
    unseen = read.thinking or (read.cut and read.hidden)
    return "" if read.parts or unseen else "an empty answer"


def _replaced(read: Read) -> str:
    count = sum(part.count(REPLACEMENT) for part in read.parts)
    bad = count >= MIXED or (count and not read.answers)
    return f"{count} broken character{'s' if count != 1 else ''} (U+FFFD)" if bad else ""


def _repeated(read: Read) -> str:
    if read.answers and not read.cut:
        return ""  # it said what it was asked for, and came to an end
    return next((why for part in read.parts if (why := _loop(part))), "")


def _loop(part: str) -> str:
    text = " ".join(part.casefold().split())
    if len(text) < RUN_CHARS:
        return ""
    found = cycle(text)
    if found:
        return f"{found!r} again and again"
    words = text.split()
    signs = Counter(text.replace(" ", ""))
    few = len(words) >= MANY and len(set(words)) <= FEW_WORDS
    few = few or (signs.total() >= LONG and len(signs) <= FEW_SIGNS)
    return "a few words again and again" if few else ""


def cycle(text: str) -> str:
    """What a text repeats, where that fills most of it; empty where it does not."""
    for period in range(1, min(LONGEST_CYCLE, len(text) // CYCLES) + 1):
        run, best, end = 0, 0, 0
        for at in range(period, len(text)):
            run = run + 1 if text[at] == text[at - period] else 0
            if run > best:
                best, end = run, at + 1
        long = best + period
        if best and long >= max(RUN_CHARS, CYCLES * period, SHARE * len(text)):
            return text[end - period : end].strip() or text[end - period : end]
    return ""


def _salad(read: Read) -> str:
    whole = "\n".join(read.parts)
    mixed = [word for word in re.findall(r"[^\W\d_]+", whole) if _is_mixed(word)]
    if len(mixed) >= MIXED or (mixed and not read.answers):
        return f"letters of several scripts in one word ({mixed[0][:20]!r})"
    scripts = {script for script in map(_script, whole) if script}
    return f"{len(scripts)} scripts in one answer" if len(scripts) >= MANY_SCRIPTS and not read.answers else ""


def _is_mixed(word: str) -> bool:
    scripts = {script for script in map(_script, word) if script}
    return len(scripts - JOINED) > 1 or len(scripts) > 2


def _script(char: str) -> str:
    """`LATIN`, `CYRILLIC`, `HAN` … by the name of a letter; empty for what is no letter, or one of any script."""
    if not char.isalpha():
        return ""
    first = unicodedata.name(char, "").split(" ", 1)[0]
    return "" if first in SYMBOLS else ALIKE.get(first, first)


def _strange(read: Read) -> str:
    """Neither the words nor the fact. What was cut before it came to them is not judged, where it thinks aloud."""
    if read.answers or read.thinking or not read.parts:
        return ""
    if read.cut and _thinks_aloud(plain("\n".join(read.parts))):
        return ""
    return "neither the words that it was to repeat nor the capital of France"


def _thinks_aloud(text: str) -> bool:
    """It speaks of the question. A salad of English and code may meet one of these words by chance."""
    found = set(TOPIC.findall(text))
    return len(found) >= 2 or any(not word.isascii() for word in found)


ROWS: tuple[Callable[[Read], str], ...] = (_empty, _replaced, _repeated, _salad, _strange)
"""Each says why an answer is nonsense; the first that does is what is told."""
