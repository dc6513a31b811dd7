"""Texts of healthy and of broken models: a healthy one is never taken out of service for its language, its style or its thinking."""

from __future__ import annotations

import random

import pytest

from sparkd.decide.nonsense import cycle, nonsense
from sparkd.model.sanity import CONTINUED, ECHO, LONGEST, QUESTION, Said

CUT = True
SANE: dict[str, Said] = {
    "as asked": Said("lantern 4729 copper. Paris."),
    "with line ends": Said("lantern 4729 copper\n\nParis\n"),
    "with a sentence": Said("lantern 4729 copper. The capital of France is Paris."),
    "in marks": Said("**lantern 4729 copper**\n\nThe capital of France is **Paris**. 🗼"),
    "capitals": Said("LANTERN 4729 COPPER. PARIS"),
    "only the words": Said("lantern 4729 copper"),
    "only the fact": Said("The capital of France is Paris."),
    "polite, and cut": Said(
        "Sure! Here is the exact phrase that you have asked me to repeat, and then the capital city", cut=CUT
    ),
    "a slip": Said("lantern 4279 coper. Paris"),
    "a loop that ended by itself": Said("lantern 4729 copper, lantern 4729 copper, lantern 4729 copper. Paris."),
    "German": Said("Laterne 4729 Kupfer. Die Hauptstadt Frankreichs ist Paris."),
    "French": Said("lanterne 4729 cuivre. La capitale de la France est Paris."),
    "Italian": Said("Lanterna 4729 rame. La capitale della Francia è Parigi."),
    "Spanish": Said("linterna 4729 cobre. La capital de Francia es París."),
    "Polish": Said("latarnia, miedź. Stolicą Francji jest Paryż."),
    "Czech": Said("Hlavní město Francie je Paříž."),
    "Hungarian": Said("Franciaország fővárosa Párizs."),
    "Finnish": Said("Ranskan pääkaupunki on Pariisi."),
    "Chinese": Said("灯笼 四七二九 铜。法国的首都是巴黎。"),
    "Chinese around Latin": Said("lantern 4729 copper。法国的首都是Paris，也叫巴黎。"),
    "Japanese": Said("ランタン 4729 銅。フランスの首都はパリです。"),
    "Japanese with Latin": Said("「lantern 4729 copper」です。フランスの首都はParisです。"),
    "Korean": Said("랜턴 4729 구리. 프랑스의 수도는 파리입니다."),
    "Korean endings at Latin words": Said("lantern과 copper입니다. 프랑스의 수도는 Paris입니다."),
    "Russian": Said("фонарь, медь. Столица Франции — Париж."),
    "Ukrainian": Said("Столиця Франції — Париж."),
    "Greek": Said("Η πρωτεύουσα της Γαλλίας είναι το Παρίσι."),
    "Arabic": Said("فانوس ٤٧٢٩ نحاس. عاصمة فرنسا هي باريس."),
    "Arabic digits alone": Said("٤٧٢٩"),
    "Persian": Said("پایتخت فرانسه پاریس است."),
    "Hebrew": Said("בירת צרפת היא פריז."),
    "Hindi": Said("लालटेन ४७२९ तांबा। फ्रांस की राजधानी पेरिस है।"),
    "Bengali": Said("ফ্রান্সের রাজধানী প্যারিস।"),
    "Thai": Said("เมืองหลวงของฝรั่งเศสคือปารีส"),
    "Georgian": Said("საფრანგეთის დედაქალაქია პარიზი."),
    "Armenian": Said("Ֆրանսիայի մայրաքաղաքը Փարիզն է։"),
    "Amharic": Said("የፈረንሳይ ዋና ከተማ ፓሪስ ናት።"),
    "Vietnamese": Said("đèn lồng 4729 đồng. Thủ đô của Pháp là Paris."),
    "full-width digits": Said("４７２９"),
    "one broken emoji": Said("lantern 4729 copper. Paris \ufffd"),
    "cut in a character": Said("lantern 4729 copper 巴\ufffd\ufffd", cut=CUT),
    "a unit beside": Said("lantern 4729 copper (5 µm, 3 Ω). Paris."),
    "a loop after a long answer": Said(
        "The words are: lantern 4729 copper. The capital of France is Paris. !!!!!!!!", cut=CUT
    ),
    # ---------------------------------------------------------------------------------- models that think first
    "reasoning, cut": Said("", "Okay, so let me see what I have here. This looks simple enough, but I should be", CUT),
    "reasoning in Chinese, cut": Said("", "好的，让我看看这里需要做什么，这个问题看起来很简单", CUT),
    "reasoning and the answer": Said("lantern 4729 copper. Paris.", "We need to answer."),
    "the answer is in the reasoning": Said("", "We repeat lantern 4729 copper and then Paris."),
    "reasoning, then the text begins": Said("Sure, here is the phrase for the user", "Simple.", CUT),
    "marked, cut": Said("<think>\nOkay, let me see what is wanted here. First there is", cut=CUT),
    "only the mark, cut": Said("<think>\n\n", cut=CUT),
    "marked, and answered": Said("<think>Easy.</think>\n\nlantern 4729 copper. Paris."),
    "marked with nothing inside": Said("<think>\n\n</think>\n\nlantern 4729 copper. Paris."),
    "another mark": Said("[THINK]Let me see what there is to do here and", cut=CUT),
    "channels": Said("<|channel|>analysis<|message|>Let me look at this now", cut=CUT),
    "unmarked, English": Said("Okay, so the user wants me to repeat some words exactly, and then to name", cut=CUT),
    "unmarked, Chinese": Said("好的，用户让我重复一些词，然后回答一个", cut=CUT),
    "unmarked, Russian": Said("Хорошо, пользователь просит повторить", cut=CUT),
    "unmarked, Japanese": Said("ユーザーは言葉を繰り返すように求めています。まず", cut=CUT),
}


@pytest.mark.parametrize("said", SANE.values(), ids=SANE.keys())
def test_what_makes_sense_is_no_nonsense(said: Said) -> None:
    assert nonsense(said) == ""


NONSENSE: dict[str, tuple[Said, str]] = {
    "one sign": (Said("!" * 32, cut=CUT), "'!' again and again"),
    "one token": (Said(" the" * 32, cut=CUT), "again and again"),
    "one token without blanks": (Said("ooky" * 32, cut=CUT), "again and again"),
    "one Chinese token": (Said("的" * 32, cut=CUT), "'的' again and again"),
    "a short cycle": (Said("I am a bot. " * 9, cut=CUT), "again and again"),
    "a cycle in Russian": (Said("да нет " * 16, cut=CUT), "again and again"),
    "an answer, then a loop": (Said("lantern 4729 copper Paris" + " Paris" * 26, cut=CUT), "'paris' again and again"),
    "a loop with slips": (Said("the the, the the the. the, the the the the the, the the", cut=CUT), "a few words"),
    "a few signs": (Said("?!!?!??!!!?!?!!??!?!!!?!??!?!", cut=CUT), "again and again"),
    "a loop in the reasoning": (Said("", "wait, " * 16, CUT), "again and again"),
    "a loop in marked reasoning": (Said("<think>" + " ok" * 31, cut=CUT), "again and again"),
    "replacement characters": (
        Said("\ufffd\ufffd\ufffd lantern \ufffd\ufffd x", cut=CUT),
        "5 broken characters (U+FFFD)",
    ),
    "one in the middle": (Said("th\ufffd answer is"), "1 broken character (U+FFFD)"),
    "in the reasoning": (Said("", "a\ufffdb\ufffdc d", CUT), "2 broken characters"),
    "Latin and Cyrillic in a word": (Said("lanтерн coпper is thеre", cut=CUT), "several scripts in one word"),
    "Latin and Arabic in a word": (Said("gradeاب tion لtest", cut=CUT), "several scripts in one word"),
    "three scripts in a word": (Said("是forкаr 的ingто", cut=CUT), "several scripts in one word"),
    "in the middle of reasoning": (Said("", "the wоrd хello gоes", CUT), "several scripts in one word"),
    "a salad of scripts": (Said("ToString 的 ность หมาย ation のは", cut=CUT), "4 scripts in one answer"),
    "a salad of code": (Said("_RECE getForgettable}}} intptr ;; BufferedaysToUser", cut=CUT), "neither the words"),
    "a salad of English": (
        Said("of blue under 42 ran quickly tables or the never inside green", cut=CUT),
        "neither the words",
    ),
    "comparison is no Paris": (Said("in comparison 847291 to"), "neither the words"),
    "a refusal of anything": (Said("I am not able to help with that."), "neither the words"),
    "an answer to something else": (Said("Once upon a time there was a king."), "neither the words"),
    "Chinese of something else": (Said("今天天气很好，我们去公园。"), "neither the words"),
    "reasoning that ended without them": (Said("", "Nothing to do here."), "neither the words"),
    "after its thinking": (Said("<think>Hm.</think> green tables"), "neither the words"),
    "empty": (Said(""), "an empty answer"),
    "blanks": (Said(" \n\n \n"), "an empty answer"),
    "empty, of 32 tokens": (Said("", cut=CUT), "an empty answer"),
    "half a character": (Said("\ufffd", cut=CUT), "an empty answer"),
}


@pytest.mark.parametrize(("said", "why"), NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_told_with_why(said: Said, why: str) -> None:
    assert why in nonsense(said)


def test_thinking_that_is_not_shown_is_no_empty_answer() -> None:
    """A parser that takes it out of the text, and shows nothing of it: all 32 tokens may have been thought."""
    assert nonsense(Said("", cut=CUT), hidden=True) == ""
    assert nonsense(Said(""), hidden=True) == "an empty answer"


def test_a_base_model_that_goes_on_after_its_line_is_judged_by_that_line() -> None:
    said = Said(
        " lantern 4729 copper. Paris.\nTask: Repeat exactly: door 1 tin. Then name\nTask: Repeat exactly:", cut=CUT
    )
    assert nonsense(said, chat=False) == ""
    assert "neither the words" in nonsense(Said(" green tables\nlantern 4729 copper. Paris."), chat=False)
    assert "again and again" in nonsense(Said("!" * 32, cut=CUT), chat=False)


def test_the_example_of_the_completion_does_not_give_the_answer_away() -> None:
    example = CONTINUED.replace(QUESTION, "")
    assert not any(word in example for word in (*ECHO, "Paris"))
    assert nonsense(Said(" window 8163 silver. Madrid."), chat=False)


@pytest.mark.parametrize("seed", range(40))
def test_random_characters_are_nonsense_at_any_length_and_never_raise(seed: int) -> None:
    made = random.Random(seed)
    text = "".join(chr(made.choice((made.randrange(0x20, 0x3000), made.randrange(0x4E00, 0xD7FF)))) for _ in range(200))
    assert nonsense(Said(text, cut=CUT))
    assert nonsense(Said((text * 10)[:LONGEST], (text * 10)[:LONGEST]))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ""),
        ("abc" * 6, "abc"),
        ("abc" * 5, ""),
        ("x" * 16, "x"),
        ("x" * 15, ""),
        ("a quite ordinary sentence of some length", ""),
        ("begin " + "ab " * 20, "ab"),
        ("a long beginning that is more than the half of all of it " + "ab " * 12, ""),
        (" " * 40, " "),
    ],
)
def test_a_cycle_fills_most_of_a_text(text: str, found: str) -> None:
    assert sorted(cycle(text)) == sorted(found)
