"""Stems of words: Porter's for English (An algorithm for suffix stripping, Program 14, 1980), else Snowball's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from itertools import pairwise

from bagwise.exceptions import InputError

ENGLISH, NONE = "english", "none"
LANGUAGES = (
    "arabic", "armenian", "basque", "catalan", "danish", "dutch", ENGLISH, "finnish", "french", "german", "greek",
    "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip
"""Those of snowballstemmer since 2.2."""

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "abli": "able", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


@cache
def stemmer(language: str) -> Callable[[str], str]:
    """The function that gives the stem of a lower-case word; "none" leaves words as they are.

    English needs no library, so that every installation gives the same; the other languages need snowballstemmer.
    """
    if language in (ENGLISH, NONE):
        return stem if language == ENGLISH else str
    try:
        import snowballstemmer
    except ImportError as error:
        raise InputError(
            f"Stems of {language} need snowballstemmer; pip install 'bagwise[text]', or keep the words as they are "
            "(--medium-set stems=false)."
        ) from error
    return lru_cache(maxsize=65_536)(snowballstemmer.stemmer(language).stemWord)


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of a lower-case English word.

    Examples
    --------
    >>> from bagwise.featurize.stemming import stem
    >>> [stem(word) for word in ("caresses", "ponies", "relational", "hopping", "generalizations")]
    ['caress', 'poni', 'relat', 'hop', 'gener']
    """
    if len(word) <= 2:
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP_2, 0)
    word = _replace(word, _STEP_3, 0)
    word = _strip(word)
    return _last_letters(word)


def _is_consonant(word: str, i: int) -> bool:
    if word[i] in "aeiou":
        return False
    if word[i] == "y":  # a vowel after a consonant, else a consonant
        return i == 0 or not _is_consonant(word, i - 1)
    return True


def _measure(word: str) -> int:
    """Porter's m: how often a vowel is followed by a consonant."""
    kinds = [_is_consonant(word, i) for i in range(len(word))]
    return sum(not before and after for before, after in pairwise(kinds))


def _has_vowel(word: str) -> bool:
    return any(not _is_consonant(word, i) for i in range(len(word)))


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1)


def _ends_cvc(word: str) -> bool:
    """Consonant, vowel, consonant other than w, x, y at the end: *o of the paper."""
    n = len(word)
    return (
        n > 2
        and _is_consonant(word, n - 1)
        and not _is_consonant(word, n - 2)
        and _is_consonant(word, n - 3)
        and word[-1] not in "wxy"
    )


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            return _mend(rest) if _has_vowel(rest) else word
    return word


def _mend(rest: str) -> str:
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if _ends_double(rest) and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_cvc(rest) else rest


def _replace(word: str, endings: dict[str, str], least: int) -> str:
    """Exchange the longest ending that fits, if enough of the word is left."""
    for suffix in sorted(endings, key=len, reverse=True):
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            return rest + endings[suffix] if _measure(rest) > least else word
    return word


def _strip(word: str) -> str:
    for suffix in sorted(_STEP_4, key=len, reverse=True):
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            fits = _measure(rest) > 1 and (suffix != "ion" or rest.endswith(("s", "t")))
            return rest if fits else word
    return word


def _last_letters(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_cvc(rest)):
            word = rest
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
