// src/kernels/fft/fft.h - XLA's fft: discrete Fourier transforms over the last one to three axes.
//
// Each axis is transformed in turn, as many lines at a time as a vector has lanes. Real lines of even length are
// transformed as complex ones of half the length (Cooley, Lewis & Welch, J. Sound Vib. 12(3), 1970).
#pragma once

#include "kernels/fft/fft_line.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// XLA's FftType.
enum class FftType { kFft = 0, kIfft = 1, kRfft = 2, kIrfft = 3 };

/// Transforms of contiguous arrays [batch, length[0], ..., length[rank - 1]]. On the complex side of kRfft and kIrfft,
/// the last axis has length / 2 + 1 elements. Inverses are divided by the product of the lengths.
struct Fft {
  FftType type;
  std::int64_t batch;
  int rank;
  std::int64_t length[3];
};

constexpr bool is_inverse(const Fft &f) { return f.type == FftType::kIfft || f.type == FftType::kIrfft; }
constexpr bool is_real(const Fft &f) { return f.type == FftType::kRfft || f.type == FftType::kIrfft; }

/// Elements along an axis on the complex side.
constexpr std::int64_t complex_extent(const Fft &f, int axis) {
  return is_real(f) && axis == f.rank - 1 ? f.length[axis] / 2 + 1 : f.length[axis];
}

/// Elements on the complex side.
constexpr std::int64_t complex_elements(const Fft &f) {
  std::int64_t product = f.batch;
  for (int axis = 0; axis < f.rank; ++axis) product *= complex_extent(f, axis);
  return product;
}

/// How the lines of one axis are transformed, and the memory that takes.
struct FftPlan {
  /// Length of the axis and of its complex transforms.
  std::int64_t axis_length, n;
  /// Length for Bluestein's algorithm, or 0.
  std::int64_t length;
  /// Lines transformed side by side.
  std::int64_t lanes;
  /// Elements of each of the four arrays that hold lines.
  std::int64_t buffer;
};

/// Lines whose buffers would leave the second-level cache are transformed one by one.
inline constexpr std::int64_t kMaxLanesLength = 4096;

template <class T>
constexpr FftPlan plan_of(const Fft &f, int axis) {
  FftPlan p{};
  p.axis_length = f.length[axis];
  const bool half = is_real(f) && axis == f.rank - 1 && p.axis_length % 2 == 0;
  p.n = half ? p.axis_length / 2 : p.axis_length;
  p.length = bluestein_length(p.n);
  const std::int64_t lines = complex_elements(f) / larger_of(complex_extent(f, axis), std::int64_t{1});
  const std::int64_t longest = larger_of(p.n + 1, p.length);
  p.lanes = lines > 1 && longest <= kMaxLanesLength ? kLanes<T> : 1;
  p.buffer = longest * p.lanes;
  return p;
}

/// Bytes of scratch memory for the tables and buffers of an axis. Roots are computed in double, in the buffers.
template <class T>
constexpr std::size_t plan_scratch(const FftPlan &p) {
  const std::int64_t most_roots = larger_of(p.axis_length, p.length > 0 ? larger_of(p.length, 2 * p.n) : 0);
  return scratch_bytes<Complex<T>>(p.axis_length) + (p.length > 0 ? scratch_bytes<Complex<T>>(p.n) : 0) +
         2 * scratch_bytes<Complex<T>>(p.length) +
         larger_of(4 * scratch_bytes<T>(p.buffer), scratch_bytes<Complex<double>>(most_roots));
}

/// Transforms the lines of one axis; memory is laid out as plan_scratch counts it.
template <class T, int Lanes>
class AxisTransform {
 public:
  AxisTransform(const FftPlan &plan, bool inverse, void *memory) : plan_(plan), inverse_(inverse) {
    Scratch scratch(memory);
    Complex<T> *roots = scratch.take<Complex<T>>(plan.axis_length);
    Complex<T> *chirp = scratch.take<Complex<T>>(plan.length > 0 ? plan.n : 0);
    Complex<T> *length_roots = scratch.take<Complex<T>>(plan.length);
    Complex<T> *chirp_transform = scratch.take<Complex<T>>(plan.length);
    Complex<double> *exact = scratch.take<Complex<double>>(0);
    T *buffers[4];
    for (T *&buffer : buffers) buffer = scratch.take<T>(plan.buffer);
    line_ = {buffers[0], buffers[1]};
    other_ = {buffers[2], buffers[3]};
    tables_ = {plan.n, roots, plan.axis_length / plan.n, plan.length, length_roots, chirp, chirp_transform};
    round_roots(plan.axis_length, exact, roots);
    if (plan.length > 0) prepare_bluestein(exact, length_roots, chirp, chirp_transform);
  }

  /// Complex lines; `step` is how far apart the elements of a line are. `from` and `to` may be the same.
  void complex_lines(const Complex<T> *const *from, Complex<T> *const *to, std::int64_t lines, std::int64_t step) {
    load_lines(from, lines, plan_.n, step);
    const Planar<T> result = run();
    store_lines(result, to, lines, plan_.n, step, inverse_ ? T{1} / static_cast<T>(plan_.n) : T{1});
  }

  /// Real lines to the first half of their spectrum.
  void real_to_complex(const T *const *from, Complex<T> *const *to, std::int64_t lines) {
    const std::int64_t n = plan_.n;
    const bool half = n != plan_.axis_length;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t l = 0; l < Lanes; ++l) {
        line_.re[i * Lanes + l] = l < lines ? from[l][half ? 2 * i : i] : T{0};
        line_.im[i * Lanes + l] = l < lines && half ? from[l][2 * i + 1] : T{0};
      }
    Planar<T> result = run();
    if (half) result = combine_halves(result);
    store_lines(result, to, lines, plan_.axis_length / 2 + 1, 1, T{1});
  }

  /// The first half of a spectrum to real lines. Elements that are their own conjugate count by their real part.
  void complex_to_real(const Complex<T> *const *from, T *const *to, std::int64_t lines) {
    const std::int64_t n = plan_.n, length = plan_.axis_length;
    const bool half = n != length;
    load_lines(from, lines, length / 2 + 1, 1);
    for (std::int64_t l = 0; l < Lanes; ++l) {
      line_.im[l] = T{0};
      if (half) line_.im[n * Lanes + l] = T{0};
    }
    if (half)
      split_halves();
    else
      for (std::int64_t i = 1; i <= n / 2; ++i) Number::at(line_, i).conjugate().store_at(line_, n - i);
    const Planar<T> result = run();
    const T scale = T{1} / static_cast<T>(length);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t l = 0; l < lines; ++l) {
        to[l][half ? 2 * i : i] = result.re[i * Lanes + l] * scale;
        if (half) to[l][2 * i + 1] = result.im[i * Lanes + l] * scale;
      }
  }

 private:
  using Number = Numbers<T, Lanes>;

  static void round_roots(std::int64_t n, Complex<double> *exact, Complex<T> *roots) {
    fill_roots(n, exact);
    for (std::int64_t t = 0; t < n; ++t) roots[t] = {static_cast<T>(exact[t].re), static_cast<T>(exact[t].im)};
  }

  /// Fills the tables of Bluestein's algorithm; the transform of the chirp is made in one lane.
  void prepare_bluestein(Complex<double> *exact, Complex<T> *length_roots, Complex<T> *chirp,
                         Complex<T> *chirp_transform) {
    const std::int64_t n = plan_.n, length = plan_.length;
    fill_roots(2 * n, exact);
    for (std::int64_t t = 0, square = 0; t < n; square = (square + 2 * t + 1) % (2 * n), ++t)
      chirp[t] = {static_cast<T>(exact[square].re), static_cast<T>(exact[square].im)};
    round_roots(length, exact, length_roots);
    for (std::int64_t t = 0; t < length; ++t) line_.re[t] = line_.im[t] = T{0};
    for (std::int64_t t = 0; t < n; ++t) {
      const std::int64_t mirrored = t == 0 ? 0 : length - t;
      line_.re[t] = line_.re[mirrored] = chirp[t].re;
      line_.im[t] = line_.im[mirrored] = -chirp[t].im;
    }
    const Planar<T> spectrum = transform_stages<T, 1>(length, length_roots, 1, line_, other_);
    const T scale = T{1} / static_cast<T>(length);
    for (std::int64_t t = 0; t < length; ++t) chirp_transform[t] = {spectrum.re[t] * scale, spectrum.im[t] * scale};
  }

  Planar<T> run() {
    if (!inverse_) return transform<T, Lanes>(tables_, line_, other_);
    const Planar<T> swapped = transform<T, Lanes>(tables_, {line_.im, line_.re}, {other_.im, other_.re});
    return {swapped.im, swapped.re};
  }

  /// The buffers that a result does not occupy.
  Planar<T> free_of(const Planar<T> &result) const {
    return result.re == line_.re || result.re == line_.im ? other_ : line_;
  }

  /// From the transform of even elements + i * odd elements to the first half of the spectrum of all.
  Planar<T> combine_halves(const Planar<T> &halves) {
    const std::int64_t n = plan_.n;
    const Planar<T> spectrum = free_of(halves);
    const Vector<T, Lanes> half = splat<T, Lanes>(T{0.5});
    for (std::int64_t k = 0; k <= n; ++k) {
      const Number a = Number::at(halves, k % n), b = Number::at(halves, (n - k) % n).conjugate();
      const Complex<T> root = k < n ? tables_.roots[k] : Complex<T>{-1, 0};
      // (a - b) / 2 is i times the transform of the odd elements.
      const Number even = a + b, odd = (a - b) * Complex<T>{root.im, -root.re};
      Number{(even + odd).re * half, (even + odd).im * half}.store_at(spectrum, k);
    }
    return spectrum;
  }

  /// The inverse of combine_halves, times two: from line_ to line_.
  void split_halves() {
    const std::int64_t n = plan_.n;
    for (std::int64_t k = 0; k < n; ++k) {
      const Number a = Number::at(line_, k), b = Number::at(line_, n - k).conjugate();
      const Complex<T> root = tables_.roots[k];
      ((a + b) + (a - b) * Complex<T>{root.im, root.re}).store_at(other_, k);
    }
    const Planar<T> split = other_;
    other_ = line_;
    line_ = split;
  }

  void load_lines(const Complex<T> *const *from, std::int64_t lines, std::int64_t count, std::int64_t step) {
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t l = 0; l < Lanes; ++l) {
        const Complex<T> value = l < lines ? from[l][i * step] : Complex<T>{0, 0};
        line_.re[i * Lanes + l] = value.re;
        line_.im[i * Lanes + l] = value.im;
      }
  }

  void store_lines(const Planar<T> &line, Complex<T> *const *to, std::int64_t lines, std::int64_t count,
                   std::int64_t step, T scale) const {
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t l = 0; l < lines; ++l)
        to[l][i * step] = {line.re[i * Lanes + l] * scale, line.im[i * Lanes + l] * scale};
  }

  FftPlan plan_;
  bool inverse_;
  FftTables<T> tables_;
  Planar<T> line_, other_;
};

/// Transforms all lines of one axis; `from` and `to` are complex but for the real side of the last axis.
template <class T, int Lanes>
MODELWHEEL_NOINLINE void transform_axis(const Fft &f, int axis, const void *from, void *to, void *memory) {
  AxisTransform<T, Lanes> transform(plan_of<T>(f, axis), is_inverse(f), memory);
  const bool real = is_real(f) && axis == f.rank - 1;
  const std::int64_t extent = complex_extent(f, axis), lines = complex_elements(f) / extent;
  std::int64_t step = 1;
  for (int inner = axis + 1; inner < f.rank; ++inner) step *= complex_extent(f, inner);
  for (std::int64_t first = 0; first < lines; first += Lanes) {
    const std::int64_t count = smaller_of<std::int64_t>(Lanes, lines - first);
    const Complex<T> *complex_from[Lanes] = {};
    Complex<T> *complex_to[Lanes] = {};
    const T *real_from[Lanes] = {};
    T *real_to[Lanes] = {};
    for (std::int64_t l = 0; l < count; ++l) {
      const std::int64_t line = first + l, at = line / step * extent * step + line % step;
      complex_from[l] = static_cast<const Complex<T> *>(from) + at;
      complex_to[l] = static_cast<Complex<T> *>(to) + at;
      real_from[l] = static_cast<const T *>(from) + line * f.length[axis];
      real_to[l] = static_cast<T *>(to) + line * f.length[axis];
    }
    if (!real)
      transform.complex_lines(complex_from, complex_to, count, step);
    else if (f.type == FftType::kRfft)
      transform.real_to_complex(real_from, complex_to, count);
    else
      transform.complex_to_real(complex_from, real_to, count);
  }
}

/// Bytes of scratch memory that `fft` needs.
template <class T>
constexpr std::size_t fft_scratch(const Fft &f) {
  std::size_t most = 0;
  for (int axis = 0; axis < f.rank; ++axis) most = larger_of(most, plan_scratch<T>(plan_of<T>(f, axis)));
  return most + (f.type == FftType::kIrfft && f.rank > 1 ? scratch_bytes<Complex<T>>(complex_elements(f)) : 0);
}

/// Computes a transform between arrays of Complex<T>, but for the real side of kRfft and kIrfft, which is T.
/// `memory` has fft_scratch<T>(f) bytes and is 64-byte aligned.
template <class T>
MODELWHEEL_NOINLINE void fft(const Fft &f, const void *in, void *out, void *memory) {
  if (complex_elements(f) == 0) return;
  // The spectrum of an inverse real transform is longer than its result: the axes before the last need a copy.
  Scratch scratch(memory);
  const bool copied = f.type == FftType::kIrfft && f.rank > 1;
  Complex<T> *copy = scratch.take<Complex<T>>(copied ? complex_elements(f) : 0);
  void *tables = scratch.take<char>(0);
  const void *from = in;
  for (int i = 0; i < f.rank; ++i) {
    // The real side comes first in kRfft and last in kIrfft.
    const int axis = f.type == FftType::kRfft ? f.rank - 1 - i : i;
    void *to = copied && i + 1 < f.rank ? copy : out;
    if (plan_of<T>(f, axis).lanes == 1)
      transform_axis<T, 1>(f, axis, from, to, tables);
    else
      transform_axis<T, kLanes<T>>(f, axis, from, to, tables);
    from = to;
  }
}

extern template void fft<float>(const Fft &, const void *, void *, void *);
extern template void fft<double>(const Fft &, const void *, void *, void *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
