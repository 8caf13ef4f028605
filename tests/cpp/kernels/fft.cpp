// fft.cpp - Fourier transforms of all kinds and many lengths, against the definition.
#include "kernels/fft/fft.h"

#include <complex>
#include <vector>

#include "check.h"
#include "random.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

using Number = std::complex<double>;
using Numbers1 = std::vector<Number>;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Transforms one axis of [lines, extent, step] by the definition; the sign is -1 forward and +1 backward.
Numbers1 definition(const Numbers1 &in, std::int64_t extent, std::int64_t step, int sign) {
  Numbers1 roots(index(extent));
  for (std::int64_t t = 0; t < extent; ++t)
    roots[index(t)] =
        std::polar(1.0, sign * 2 * 3.14159265358979323846 * static_cast<double>(t) / static_cast<double>(extent));
  Numbers1 out(in.size());
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(in.size()); ++at) {
    const std::int64_t k = at / step % extent, base = at - k * step;
    Number sum = 0;
    for (std::int64_t j = 0; j < extent; ++j) sum += in[index(base + j * step)] * roots[index(j * k % extent)];
    out[index(at)] = sum;
  }
  return out;
}

Numbers1 transform_all_axes(const Fft &f, Numbers1 values, int sign) {
  std::int64_t step = 1;
  for (int axis = f.rank - 1; axis >= 0; --axis) {
    values = definition(values, f.length[axis], step, sign);
    step *= f.length[axis];
  }
  return values;
}

std::int64_t points(const Fft &f) {
  std::int64_t product = 1;
  for (int axis = 0; axis < f.rank; ++axis) product *= f.length[axis];
  return product;
}

/// What a transform may differ by from exact arithmetic, relative to the root mean square of the result.
template <class T>
double tolerance(const Fft &f) {
  return static_cast<double>(std::numeric_limits<T>::epsilon()) * 4 * std::log2(static_cast<double>(points(f)) + 2);
}

/// Compares, with the error measured against the root mean square of what is expected.
template <class T>
void check_close(const Fft &f, const Numbers1 &expected, const Numbers1 &result) {
  double square = 0, worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    square += std::norm(expected[i]);
    worst = std::fmax(worst, std::abs(expected[i] - result[i]));
    if (std::isnan(result[i].real()) || std::isnan(result[i].imag())) worst = INFINITY;
  }
  const double error = worst / std::sqrt(square / static_cast<double>(expected.size()) + 1e-300);
  if (!(error <= tolerance<T>(f)))
    std::printf("fft type %d, batch %lld, lengths %lld %lld %lld: error %g > %g\n", static_cast<int>(f.type),
                static_cast<long long>(f.batch), static_cast<long long>(f.length[0]),
                static_cast<long long>(f.length[1]), static_cast<long long>(f.length[2]), error, tolerance<T>(f));
  CHECK(error <= tolerance<T>(f));
}

template <class T>
Buffer<T> run(const Fft &f, const void *in, std::int64_t out_size) {
  Buffer<T> out(out_size);
  Buffer<char> scratch(static_cast<std::int64_t>(fft_scratch<T>(f)));
  fft<T>(f, in, out.data(), scratch.data());
  return out;
}

template <class T>
Numbers1 widened(const Buffer<T> &interleaved) {
  Numbers1 values(index(interleaved.size() / 2));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t at = 2 * static_cast<std::int64_t>(i);
    values[i] = {static_cast<double>(interleaved[at]), static_cast<double>(interleaved[at + 1])};
  }
  return values;
}

template <class T>
void test_complex(Random &random, const Fft &f) {
  Buffer<T> in(2 * f.batch * points(f));
  in.fill(random);
  const bool inverse = f.type == FftType::kIfft;
  Numbers1 expected = transform_all_axes(f, widened(in), inverse ? 1 : -1);
  if (inverse)
    for (Number &value : expected) value /= static_cast<double>(points(f));
  check_close<T>(f, expected, widened(run<T>(f, in.data(), in.size())));
}

/// The first half of the last axis of a full spectrum.
Numbers1 first_half(const Fft &f, const Numbers1 &full) {
  const std::int64_t length = f.length[f.rank - 1], half = length / 2 + 1;
  Numbers1 values;
  for (std::int64_t line = 0; line < f.batch * points(f) / length; ++line)
    for (std::int64_t k = 0; k < half; ++k) values.push_back(full[index(line * length + k)]);
  return values;
}

/// Forward and, from the spectrum it should give, backward.
template <class T>
void test_real(Random &random, Fft f) {
  f.type = FftType::kRfft;
  Buffer<T> in(f.batch * points(f));
  in.fill(random);
  Numbers1 values(index(in.size()));
  for (std::int64_t i = 0; i < in.size(); ++i) values[index(i)] = static_cast<double>(in[i]);
  const Numbers1 expected = first_half(f, transform_all_axes(f, values, -1));
  check_close<T>(f, expected, widened(run<T>(f, in.data(), 2 * static_cast<std::int64_t>(expected.size()))));

  f.type = FftType::kIrfft;
  Buffer<T> spectrum(2 * static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    spectrum[2 * static_cast<std::int64_t>(i)] = static_cast<T>(expected[i].real());
    spectrum[2 * static_cast<std::int64_t>(i) + 1] = static_cast<T>(expected[i].imag());
  }
  if (f.rank == 1) {
    // Elements that are their own conjugate have no imaginary part: whatever is there is ignored.
    const std::int64_t half = f.length[0] / 2 + 1;
    for (std::int64_t line = 0; line < f.batch; ++line) {
      spectrum[2 * line * half + 1] = T{5};
      if (f.length[0] % 2 == 0) spectrum[2 * (line * half + half - 1) + 1] = T{-7};
    }
  }
  const Buffer<T> back = run<T>(f, spectrum.data(), in.size());
  Numbers1 result(values.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<double>(back[static_cast<std::int64_t>(i)]);
  check_close<T>(f, values, result);
}

template <class T>
void test_lengths(Random &random, int rank, std::int64_t batch, std::int64_t a, std::int64_t b = 1,
                  std::int64_t c = 1) {
  for (const FftType type : {FftType::kFft, FftType::kIfft}) test_complex<T>(random, {type, batch, rank, {a, b, c}});
  test_real<T>(random, {FftType::kRfft, batch, rank, {a, b, c}});
}

template <class T>
void test_all(Random &random) {
  for (std::int64_t length = 1; length <= 64; ++length)
    for (const std::int64_t batch : {1, 3}) test_lengths<T>(random, 1, batch, length);
  for (const std::int64_t length : {67, 97, 101, 122, 127, 128, 134, 169, 243, 256, 257, 360, 625, 1000, 1009})
    test_lengths<T>(random, 1, 1, length);
  for (const std::int64_t length : {8, 15, 61, 67, 134, 200}) test_lengths<T>(random, 1, 21, length);
  const std::int64_t planes[][2] = {{1, 1}, {1, 8}, {8, 1}, {3, 4}, {5, 7}, {16, 20}, {4, 67}, {67, 6}, {30, 9}};
  for (const auto &plane : planes)
    for (const std::int64_t batch : {1, 5}) test_lengths<T>(random, 2, batch, plane[0], plane[1]);
  test_lengths<T>(random, 3, 2, 2, 3, 4);
  test_lengths<T>(random, 3, 1, 6, 5, 7);
  test_lengths<T>(random, 3, 1, 8, 8, 16);
}

}  // namespace

KERNEL_INSTANCES(fft<float>, fft<double>, fft_scratch<float>)

KERNEL_TEST(fft) {
  Random random(30);
  test_all<float>(random);
  test_all<double>(random);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
