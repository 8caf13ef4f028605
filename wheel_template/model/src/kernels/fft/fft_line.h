// src/kernels/fft/fft_line.h - discrete Fourier transforms of complex lines, several side by side in vector lanes.
//
// Stockham's autosort with radices 4, 2 and the odd primes (Van Loan, "Computational Frameworks for the Fast Fourier
// Transform", 1992); lengths with a large prime factor by Bluestein's chirp transform (IEEE Trans. AU-18, 1970).
#pragma once

#include "kernels/base/numeric.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Real and imaginary parts of a line; element i of lane l is at [i * Lanes + l].
template <class T>
struct Planar {
  T *re, *im;
};

/// Largest prime factor that is transformed by its definition; for larger ones Bluestein's algorithm is faster.
inline constexpr std::int64_t kMaxRadix = 61;

/// The factor by which the next stage divides a length.
constexpr std::int64_t next_radix(std::int64_t n) {
  if (n % 4 == 0) return 4;
  if (n % 2 == 0) return 2;
  for (std::int64_t factor = 3; factor * factor <= n; factor += 2)
    if (n % factor == 0) return factor;
  return n;
}

/// Length of the power-of-two transforms that Bluestein's algorithm needs for n, or 0 if n does without.
constexpr std::int64_t bluestein_length(std::int64_t n) {
  bool small = true;
  for (std::int64_t rest = n; rest > 1; rest /= next_radix(rest)) small = small && next_radix(rest) <= kMaxRadix;
  if (small) return 0;
  std::int64_t length = 1;
  while (length < 2 * n) length *= 2;
  return length;
}

/// The tables for transforms of one length, in scratch memory.
template <class T>
struct FftTables {
  std::int64_t n;
  /// exp(-2 pi i t / (n * step)) for 0 <= t < n * step.
  const Complex<T> *roots;
  std::int64_t step;
  /// For Bluestein's algorithm, else 0: its length, and the roots of that.
  std::int64_t length;
  const Complex<T> *length_roots;
  /// exp(-pi i t^2 / n) for t < n, and the transform of its conjugate divided by `length`.
  const Complex<T> *chirp, *chirp_transform;
};

/// roots[t] = exp(-2 pi i t / n), to within a few units in the last place: each is a product of at most log2(n)
/// directly computed ones.
inline void fill_roots(std::int64_t n, Complex<double> *roots) {
  roots[0] = {1, 0};
  for (std::int64_t half = 1; half < n; half *= 2) {
    const double angle = 2 * 3.14159265358979323846 * static_cast<double>(half) / static_cast<double>(n);
    const Complex<double> turn{__builtin_cos(angle), -__builtin_sin(angle)};
    for (std::int64_t t = half; t < smaller_of(2 * half, n); ++t) roots[t] = roots[t - half] * turn;
  }
}

/// A complex number in each lane.
template <class T, int Lanes>
struct Numbers {
  Vector<T, Lanes> re, im;

  MODELWHEEL_INLINE static Numbers at(const Planar<T> &line, std::int64_t i) {
    return {load<T, Lanes>(line.re + i * Lanes), load<T, Lanes>(line.im + i * Lanes)};
  }
  MODELWHEEL_INLINE void store_at(const Planar<T> &line, std::int64_t i) const {
    store<T, Lanes>(line.re + i * Lanes, re);
    store<T, Lanes>(line.im + i * Lanes, im);
  }
  MODELWHEEL_INLINE friend Numbers operator+(Numbers a, Numbers b) { return {a.re + b.re, a.im + b.im}; }
  MODELWHEEL_INLINE friend Numbers operator-(Numbers a, Numbers b) { return {a.re - b.re, a.im - b.im}; }
  MODELWHEEL_INLINE friend Numbers operator*(Numbers a, Complex<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  /// Times the imaginary unit.
  MODELWHEEL_INLINE Numbers turned() const { return {-im, re}; }
  MODELWHEEL_INLINE Numbers conjugate() const { return {re, -im}; }
};

/// One stage: n = radix * count * stride in all, `stride` transforms are interleaved.
struct Stage {
  std::int64_t radix, count, stride;
};

template <class T, int Lanes>
MODELWHEEL_NOINLINE void stage_2(const Stage &s, const Complex<T> *roots, std::int64_t step, Planar<T> in,
                                 Planar<T> out) {
  using N = Numbers<T, Lanes>;
  for (std::int64_t p = 0; p < s.count; ++p) {
    const Complex<T> w = roots[p * s.stride * step];
    for (std::int64_t q = 0; q < s.stride; ++q) {
      const N a = N::at(in, q + s.stride * p), b = N::at(in, q + s.stride * (p + s.count));
      (a + b).store_at(out, q + s.stride * 2 * p);
      ((a - b) * w).store_at(out, q + s.stride * (2 * p + 1));
    }
  }
}

template <class T, int Lanes>
MODELWHEEL_NOINLINE void stage_4(const Stage &s, const Complex<T> *roots, std::int64_t step, Planar<T> in,
                                 Planar<T> out) {
  using N = Numbers<T, Lanes>;
  for (std::int64_t p = 0; p < s.count; ++p) {
    const std::int64_t turn = p * s.stride * step;
    const Complex<T> w1 = roots[turn], w2 = roots[2 * turn], w3 = roots[3 * turn];
    for (std::int64_t q = 0; q < s.stride; ++q) {
      const std::int64_t from = q + s.stride * p, to = q + s.stride * 4 * p;
      const N a = N::at(in, from), b = N::at(in, from + s.stride * s.count);
      const N c = N::at(in, from + s.stride * 2 * s.count), d = N::at(in, from + s.stride * 3 * s.count);
      const N even = a + c, odd = b + d, difference = a - c, turned = (b - d).turned();
      (even + odd).store_at(out, to);
      ((difference - turned) * w1).store_at(out, to + s.stride);
      ((even - odd) * w2).store_at(out, to + 2 * s.stride);
      ((difference + turned) * w3).store_at(out, to + 3 * s.stride);
    }
  }
}

/// An odd radix by the definition; elements j and radix - j share their products.
template <class T, int Lanes>
MODELWHEEL_NOINLINE void stage_odd(const Stage &s, const Complex<T> *roots, std::int64_t step, Planar<T> in,
                                   Planar<T> out) {
  using N = Numbers<T, Lanes>;
  const std::int64_t radix = s.radix, half = radix / 2, part = s.count * s.stride * step;
  for (std::int64_t p = 0; p < s.count; ++p)
    for (std::int64_t q = 0; q < s.stride; ++q) {
      N sums[kMaxRadix / 2 + 1], differences[kMaxRadix / 2 + 1];
      const N first = N::at(in, q + s.stride * p);
      N total = first;
      for (std::int64_t j = 1; j <= half; ++j) {
        const N a = N::at(in, q + s.stride * (p + s.count * j)),
                b = N::at(in, q + s.stride * (p + s.count * (radix - j)));
        sums[j] = a + b;
        differences[j] = a - b;
        total = total + sums[j];
      }
      total.store_at(out, q + s.stride * radix * p);
      for (std::int64_t k = 1; k <= half; ++k) {
        N even = first, odd{};
        for (std::int64_t j = 1, at = k; j <= half; ++j, at = at + k < radix ? at + k : at + k - radix) {
          const Complex<T> w = roots[at * part];
          even = {even.re + sums[j].re * w.re, even.im + sums[j].im * w.re};
          odd = {odd.re + differences[j].re * w.im, odd.im + differences[j].im * w.im};
        }
        const std::int64_t turn = p * s.stride * step, to = q + s.stride * radix * p;
        ((even + odd.turned()) * roots[turn * k]).store_at(out, to + s.stride * k);
        ((even - odd.turned()) * roots[turn * (radix - k)]).store_at(out, to + s.stride * (radix - k));
      }
    }
}

/// Transforms a line of length n whose roots of unity are every `step`-th of the table; returns which of the two
/// buffers holds the result.
template <class T, int Lanes>
Planar<T> transform_stages(std::int64_t n, const Complex<T> *roots, std::int64_t step, Planar<T> line,
                           Planar<T> other) {
  for (Stage s{1, n, 1}; s.count > 1; s.stride *= s.radix) {
    s.radix = next_radix(s.count);
    s.count /= s.radix;
    if (s.radix == 4)
      stage_4<T, Lanes>(s, roots, step, line, other);
    else if (s.radix == 2)
      stage_2<T, Lanes>(s, roots, step, line, other);
    else
      stage_odd<T, Lanes>(s, roots, step, line, other);
    const Planar<T> result = other;
    other = line;
    line = result;
  }
  return line;
}

/// Transforms a line; returns which of the two buffers holds the result. For the inverse, without its division by n,
/// exchange real and imaginary parts before and after.
template <class T, int Lanes>
Planar<T> transform(const FftTables<T> &t, Planar<T> line, Planar<T> other) {
  using N = Numbers<T, Lanes>;
  if (t.length == 0) return transform_stages<T, Lanes>(t.n, t.roots, t.step, line, other);
  for (std::int64_t i = 0; i < t.length; ++i) (i < t.n ? N::at(line, i) * t.chirp[i] : N{}).store_at(line, i);
  const Planar<T> spectrum = transform_stages<T, Lanes>(t.length, t.length_roots, 1, line, other);
  for (std::int64_t i = 0; i < t.length; ++i) (N::at(spectrum, i) * t.chirp_transform[i]).store_at(spectrum, i);
  const Planar<T> free = spectrum.re == line.re ? other : line;
  const Planar<T> swapped =
      transform_stages<T, Lanes>(t.length, t.length_roots, 1, {spectrum.im, spectrum.re}, {free.im, free.re});
  const Planar<T> result{swapped.im, swapped.re};
  for (std::int64_t i = 0; i < t.n; ++i) (N::at(result, i) * t.chirp[i]).store_at(result, i);
  return result;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
