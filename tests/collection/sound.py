"""Sounds that are computed: melodies, rhythms, and something like a voice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Sound = npt.NDArray[np.float32]


def tone(pitch: float, seconds: float, rate: int, harmonics: int = 6) -> Sound:
    """A plucked string: harmonics that die away, the higher ones sooner. `pitch` is a key of a piano, 69 for 440 Hz."""
    times = np.arange(round(seconds * rate)) / rate
    frequency = 440.0 * 2.0 ** ((pitch - 69) / 12)
    parts = [
        np.sin(2 * np.pi * frequency * n * times) * np.exp(-2 * n * times) / n
        for n in range(1, harmonics + 1)
    ]
    made: Sound = np.sum(parts, axis=0).astype(np.float32)
    return made


def melody(pitches: list[int], seconds: float, rate: int) -> Sound:
    """Notes after each other."""
    notes = [tone(pitch, seconds, rate) for pitch in pitches]
    made: Sound = np.concatenate(notes) * np.float32(0.3)
    return made


def vowels(seconds: float, rate: int, seed: int = 0) -> Sound:
    """A hum with the formants of vowels that change four times a second: near enough to speech for a detector."""
    rng = np.random.default_rng(seed)
    count = round(seconds * rate)
    times = np.arange(count) / rate
    pitch = 120 + 15 * np.sin(2 * np.pi * 0.7 * times) + np.cumsum(rng.normal(0, 0.02, count))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    formants = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480)]
    sound = np.zeros(count)
    for harmonic in range(1, 30):
        gain = np.zeros(count)
        for start in range(0, count, rate // 4):
            chosen = formants[rng.integers(len(formants))]
            near = [1 / (1 + ((harmonic * 120 - f) / 90) ** 2) for f in chosen]
            gain[start : start + rate // 4] = near[0] + 0.6 * near[1] + 0.3 * near[2] + 0.005
        window = np.hanning(rate // 20)
        sound += np.convolve(gain, window / window.sum(), "same") * np.sin(harmonic * phase)
    sound *= 0.6 + 0.4 * np.sin(2 * np.pi * 4 * times)
    sound += rng.normal(0, 0.002, count)
    made: Sound = (0.5 * sound / np.abs(sound).max()).astype(np.float32)
    return made


def clicks(beats_per_minute: float, seconds: float, rate: int) -> Sound:
    """A drum at each beat: noise that dies away."""
    rng = np.random.default_rng(0)
    sound = np.zeros(round(seconds * rate), np.float32)
    drum = rng.normal(0, 0.3, rate // 10) * np.exp(-np.arange(rate // 10) / (0.02 * rate))
    for beat in np.arange(0, seconds - 0.2, 60 / beats_per_minute):
        start = round(beat * rate)
        sound[start : start + len(drum)] += drum.astype(np.float32)
    return sound


def mel_spectrum(sound: Sound, rate: int, bands: int, low: float, high: float) -> Sound:
    """Amplitudes by band and frame: windows of 1024 samples, 512 apart, and triangles of equal area (Slaney's mel)."""
    padded = np.pad(sound, 512)
    starts = range(0, len(padded) - 1023, 512)
    frames = np.stack([padded[start : start + 1024] for start in starts]) * np.hanning(1025)[:-1]
    spectrum = np.abs(np.fft.rfft(frames, axis=1))
    edges = _hertz(np.linspace(_mel(low), _mel(high), bands + 2))
    bins = np.fft.rfftfreq(1024, 1 / rate)
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    filters = (
        np.clip(np.minimum(rising, falling), 0, None) * (2 / (edges[2:] - edges[:-2]))[:, None]
    )
    made: Sound = (filters @ spectrum.T).astype(np.float32)
    return made


_LINEAR, _STEP = 1000.0, np.log(6.4) / 27


def _mel(hertz: float) -> float:
    if hertz < _LINEAR:
        return hertz * 3 / 200
    return float(15 + np.log(hertz / _LINEAR) / _STEP)


def _hertz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(mel < 15, mel * 200 / 3, _LINEAR * np.exp(_STEP * (mel - 15)))
