"""Rows for the models that read letters: of Thai, and of peptides."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]

_THAI_KINDS = {
    "c": "กขฃคฆงจชซญฎฏฐฑฒณดตถทธนบปพฟภมยรลวศษสฬอ",
    "n": "ฅฉผฟฌหฮ",
    "v": "ะาำิีืึุู",
    "w": "เแโใไ",
    "t": "่้๊๋",
    "s": "์ๆฯ.",
    "d": "0123456789๑๒๓๔๕๖๗๘๙",
    "p": " ",
}
_KINDS = ("b_e", "c", "d", "n", "o", "p", "q", "s", "s_e", "t", "v", "w")
_LETTERS = "กขฃคฅฆงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรฤลวศษสหฬอฮฯะัาำิีึืฺุูเแโใไๅๆ็่้๊๋์ํ๐๑๒๓๔๕๖๗๘๙"
_FIRST_THAI = 94
"""The number of the first letter of Thai; before it are those of ASCII."""


def thai_rows(text: str) -> tuple[Rows, Rows]:
    """The letters around each letter of a text of Thai, and their kinds, as deepcut was trained on."""
    kinds = {letter: _KINDS.index(kind) for kind, text in _THAI_KINDS.items() for letter in text}
    padded = " " * 10 + text + " " * 10
    letters, kinds_of = [], []
    for place in range(10, 10 + len(text)):
        around = padded[place + 1 : place + 11] + padded[place - 10 : place][::-1] + padded[place]
        letters.append([_number(letter) for letter in around])
        kinds_of.append([kinds.get(letter, 4) for letter in around])
    return np.array(letters, np.float32), np.array(kinds_of, np.float32)


def _number(letter: str) -> int:
    if letter in _LETTERS:
        return _FIRST_THAI + _LETTERS.index(letter)
    return 1 if letter == " " else 80


_ATOMS = "CHNOSP"
_RESIDUES = "KRPTNAQVSGILCMHFYWED"
_COMPOSITION = {
    "A": (3, 5, 1, 1), "R": (6, 12, 4, 1), "N": (4, 6, 2, 2), "D": (4, 5, 1, 3), "C": (3, 5, 1, 1, 1),
    "E": (5, 7, 1, 3), "Q": (5, 8, 2, 2), "G": (2, 3, 1, 1), "H": (6, 7, 3, 1), "I": (6, 11, 1, 1),
    "L": (6, 11, 1, 1), "K": (6, 12, 2, 1), "M": (5, 9, 1, 1, 1), "F": (9, 9, 1, 1), "P": (5, 7, 1, 1),
    "S": (3, 5, 1, 2), "T": (4, 7, 1, 2), "W": (11, 10, 2, 1), "Y": (9, 9, 1, 2), "V": (5, 9, 1, 1),
}  # fmt: skip


def peptide_rows(peptides: list[str]) -> dict[str, Rows]:
    """The atoms of each residue, of pairs, of the whole and its ends, and which residue it is, as DeepLC reads them."""
    atoms = np.zeros((len(peptides), 60, 6), np.float32)
    residues = np.zeros((len(peptides), 60, 20), np.float32)
    whole = np.zeros((len(peptides), 55), np.float32)
    for row, peptide in enumerate(peptides):
        for place, residue in enumerate(peptide):
            composition = _COMPOSITION[residue]
            atoms[row, place, : len(composition)] = composition
            residues[row, place, _RESIDUES.index(residue)] = 1
        ends = atoms[row, [0, 1, 2, 3, *range(len(peptide) - 4, len(peptide))]]
        whole[row] = [*atoms[row].sum(axis=0), len(peptide), *ends.ravel()]
    pairs = atoms[:, ::2] + atoms[:, 1::2]
    return {"atoms": atoms, "pairs": pairs, "peptide": whole, "residues": residues}
