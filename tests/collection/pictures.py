"""What each model of the collection does, as a picture of a prediction that it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import images, sound, texts
from .drawing import BLUE, DARK, GREY, ORANGE, Drawing

Model = Callable[..., Any]
"""An instance of `model_NAME.Model`."""

ROOT = Path(__file__).parents[2]


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def magika(model: Model) -> Drawing:
    """Files of this repository."""
    kinds = (ROOT / "model_specs" / "labels" / "magika.txt").read_text().split()
    names = ["README.md", "pyproject.toml", "Makefile", "model_specs/magika.yaml", "model_specs/schema.json",
             "wheel_template/model/src/model.cpp", "tests/collection/pictures.py"]  # fmt: skip
    rows = []
    for name in names:
        content = (ROOT / name).read_bytes()
        first, last = content.lstrip()[:1024], content.rstrip()[-1024:]
        given = np.full((1, 2048), 256, np.int32)
        given[0, : len(first)] = list(first)
        given[0, 2048 - len(last) :] = list(last)
        found = model(given)[0]
        best = int(found.argmax())
        rows.append((name.rpartition("/")[2], float(found[best]), kinds[best]))
    drawing = Drawing("magika: what kind of file is it?", height=200)
    drawing.bars(rows)
    return drawing


def silero_vad(model: Model) -> Drawing:
    """Silence, something like a voice, noise, and the voice again."""
    rate = 16000
    silence = np.random.default_rng(1).normal(0, 0.001, rate).astype(np.float32)
    noise = np.random.default_rng(2).normal(0, 0.05, rate).astype(np.float32)
    voice = sound.vowels(3.0, rate)
    wave = np.concatenate([silence, voice[: 2 * rate], noise, voice[rate:]])
    state, context = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32)
    speech = []
    for start in range(0, len(wave) - 511, 512):
        part = wave[start : start + 512]
        found = model(np.concatenate([context, part])[None], state)
        state, context = found["next_state"], part[-64:]
        speech.append(float(found["speech"][0, 0]))
    drawing = Drawing("silero-vad: where somebody speaks (silence, voice, noise, voice)")
    scale = 610 / len(wave)
    step = len(wave) // 610
    envelope = np.abs(wave[: step * 610].reshape(610, step)).max(axis=1)
    ends = [(15 + x, 80 + sign * 45 * h) for x, h in enumerate(envelope) for sign in (-1, 1)]
    drawing.line(ends, GREY, 1)
    drawing.line(
        [(15 + (n + 0.5) * 512 * scale, 200 - 65 * p) for n, p in enumerate(speech)], BLUE, 2
    )
    drawing.text(15, 148, "probability of speech")
    drawing.line([(15, 200), (625, 200)], DARK, 0.5)
    return drawing


def basic_pitch(model: Model) -> Drawing:
    """A melody on a string."""
    pitches = [60, 64, 67, 72, 71, 67, 64, 62]
    wave = sound.melody(pitches, 43844 / 22050 / len(pitches), 22050)
    given = np.zeros((1, 43844, 1), np.float32)
    given[0, : len(wave), 0] = wave[:43844]
    notes = model(given)["note"][0].T[30:60][::-1]
    drawing = Drawing("basic-pitch: the notes in two seconds of music (orange: what was played)")
    frames, cell = notes.shape[1], (3.5, 5.6)
    drawing.heat(notes, 20, 40, cell, least=0.3)
    for number, pitch in enumerate(pitches):
        x, width = 20 + number * frames / 8 * cell[0], frames / 8 * cell[0]
        drawing.rect(x, 40 + (59 - (pitch - 21) + 0.4) * cell[1], width, 1.2, ORANGE)
    return drawing


def tempo_cnn(model: Model) -> Drawing:
    """Drums at three tempos."""
    drawing = Drawing("tempo-cnn: drums at 80, 120 and 160 beats a minute, and what it finds")
    for tempo, colour in ((80, ORANGE), (120, BLUE), (160, DARK)):
        wave = sound.clicks(tempo, 12.0, 11025)
        mel = sound.mel_spectrum(wave, 11025, 40, 20, 5000)[:, :256]
        found = model(mel[None, :, :, None])[0]
        drawing.line(
            [(20 + 2.3 * n, 195 - 150 * p / found.max()) for n, p in enumerate(found)], colour
        )
        drawing.text(20 + 2.3 * int(found.argmax()) + 6, 50, f"{30 + int(found.argmax())}")
    drawing.text(20, 213, "30")
    drawing.text(610, 213, "285", end=True)
    return drawing


def deepcut(model: Model) -> Drawing:
    """A sentence of Thai: I go to the market with my friend every day."""
    text = "ฉันไปตลาดกับเพื่อนทุกวัน"
    begins = model(*texts.thai_rows(text))[:, 0]
    words, start = [], 0
    for place in [*(n for n in range(1, len(text)) if begins[n] > 0.5), len(text)]:
        words.append(text[start:place])
        start = place
    drawing = Drawing("deepcut: where words of Thai begin", height=190)
    for place, value in enumerate(begins):
        drawing.rect(20 + 24 * place, 130 - 90 * value, 18, 90 * value + 0.5, BLUE)
        drawing.text(24 + 24 * place, 150, text[place])
    drawing.text(20, 178, " | ".join(words))
    return drawing


def deeplc(model: Model) -> Drawing:
    """Peptides of a protein that is often used for calibration."""
    peptides = [
        "LVTDLTK",
        "YLYEIAR",
        "HLVDEPQNLIK",
        "LVNELTEFAK",
        "DAFLGSFLYEYSR",
        "KVPQVSTPTLVEVSR",
        "SLHTLFGDK",
    ]
    times = model(**texts.peptide_rows(peptides))[:, 0]
    low, high = float(times.min()) - 5, float(times.max())
    order = np.argsort(times)
    rows = [(peptides[n], (float(times[n]) - low) / (high - low), f"{times[n]:.1f}") for n in order]
    drawing = Drawing("deeplc: when peptides leave the column (before calibration)", height=200)
    drawing.bars(rows)
    return drawing


def document_orientation(model: Model) -> Drawing:
    """A page of print, turned in four ways."""
    rows = []
    for turned in (0, 90, 180, 270):
        found = model(images.normalised(images.page(turned)))[0]
        best = int(found.argmax())
        rows.append(
            (
                f"turned by {turned} degrees",
                float(found[best]),
                f"{90 * best}: {_percent(found[best])}",
            )
        )
    drawing = Drawing("document-orientation: which way up is a page?", height=140)
    drawing.bars(rows)
    return drawing


def ppocr_line_direction(model: Model) -> Drawing:
    """Lines of print, some of them upside down."""
    rows = []
    for text in ("modelwheel", "3.50 EUR", "open until six"):
        for upside_down in (False, True):
            image = images.line_of_text(text, upside_down=upside_down)
            found = model(images.centred(image))[0]
            label = f"{text}, {'upside down' if upside_down else 'upright'}"
            rows.append((label, float(found[1]), _percent(found[1])))
    drawing = Drawing(
        "ppocr-line-direction: the probability that a line is upside down", height=180
    )
    drawing.bars(rows)
    return drawing


def ppocr_text_detection(model: Model) -> Drawing:
    """A board with words."""
    found = model(images.normalised(images.signs()))[0, 0]
    drawing = Drawing("ppocr-text-detection: words on a board, and where it finds text", height=370)
    drawing.rect(10, 40, 305, 320, "#d6cebe")
    for x, y, size, text in images.WORDS:
        drawing.sized_text(10 + x * 0.95, 40 + y + size * 0.95, text, size)
    coarse = found.reshape(80, 4, 80, 4).mean(axis=(1, 3))
    drawing.heat(coarse, 325, 40, (3.8, 4))
    return drawing


PICTURES: Mapping[str, Callable[[Model], Drawing]] = {
    "basic-pitch": basic_pitch,
    "deepcut": deepcut,
    "deeplc": deeplc,
    "document-orientation": document_orientation,
    "magika": magika,
    "ppocr-line-direction": ppocr_line_direction,
    "ppocr-text-detection": ppocr_text_detection,
    "silero-vad": silero_vad,
    "tempo-cnn": tempo_cnn,
}
"""By the names of the specs."""
