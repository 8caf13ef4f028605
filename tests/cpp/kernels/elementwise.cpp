// elementwise.cpp - generated code on the elements of rows, against double precision.
#include "kernels/elementwise/elementwise.h"

#include <cmath>
#include <limits>

#include "activations.h"
#include "check.h"
#include "random.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// As modelwheel generates it: a state, three parts of wider rows and what is added to one of them in every row; the
/// new state where a mask says so, in place, and a second result.
template <int Columns>
struct Gates {
  static constexpr int kReads = 5, kMasks = 1, kWrites = 2, kColumns = Columns;

  template <int Lanes, int Count>
  MODELWHEEL_INLINE static void at(const float *const *in, const std::int32_t *mask, float *const *out,
                                   std::int64_t j) {
    Floats<Lanes> v[kReads][Count], sum[Count], state[Count], result[Count];
    MODELWHEEL_UNROLL
    for (int i = 0; i < kReads; ++i) {
      MODELWHEEL_UNROLL
      for (int k = 0; k < Count; ++k) v[i][k] = load<float, Lanes>(in[i] + j + k * Lanes);
    }
    MODELWHEEL_UNROLL
    for (int k = 0; k < Count; ++k) {
      sum[k] = v[1][k] + v[4][k];
      state[k] = sigmoid_of<Lanes>(sum[k]) * v[0][k] + gated_tanh_of<Lanes>(v[2][k], v[3][k]);
      result[k] = tanh_of<Lanes>(state[k]);
    }
    MODELWHEEL_UNROLL
    for (int k = 0; k < Count; ++k) {
      store<float, Lanes>(out[0] + j + k * Lanes, chosen<Lanes>(mask[0], state[k], v[0][k]));
      store<float, Lanes>(out[1] + j + k * Lanes, result[k]);
    }
  }
};

double sigmoid(double x) { return exact(Activation::kSigmoid, x); }

bool is_near(double expected, float found) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected)) return expected == static_cast<double>(found);
  return std::fabs(expected - static_cast<double>(found)) <= 4e-6 * std::fmax(1.0, std::fabs(expected));
}

template <int Columns>
void check_gates(Random &random) {
  const std::int64_t rows = random.integer(0, 6), gap = random.integer(0, 3);
  const std::int64_t wide = 3 * Columns + gap, apart = Columns + random.integer(0, 5);
  Buffer<float> state(rows * Columns), parts(rows * wide), bias(Columns), result(rows * apart);
  Buffer<char> mask(rows);
  Buffer<float> *const read[] = {&state, &parts, &bias};
  for (Buffer<float> *buffer : read) {
    for (float &value : *buffer) {
      value = static_cast<float>(8 * random.real());
      if (random.chance(2)) value = random.chance(50) ? INFINITY : std::numeric_limits<float>::quiet_NaN();
    }
  }
  for (char &one : mask) one = random.chance(50);
  const Buffer<float> before(state), untouched(result);
  const float *const part = parts.data() + gap;
  const Plane<const float> reads[] = {
      {state.data(), Columns}, {part, wide}, {part + Columns, wide}, {part + 2 * Columns, wide}, {bias.data(), 0}};
  const Plane<const char> masks[] = {{mask.data(), 1}};
  const Plane<float> writes[] = {{state.data(), Columns}, {result.data(), apart}};
  elementwise<Gates<Columns>>(rows, reads, masks, writes);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < Columns; ++j) {
      const double held = static_cast<double>(before[i * Columns + j]);
      const auto at = [&](int k) { return static_cast<double>(part[i * wide + k * Columns + j]); };
      const double sum = static_cast<double>(static_cast<float>(at(0) + static_cast<double>(bias[j])));
      const double next = sigmoid(sum) * held + sigmoid(at(1)) * std::tanh(at(2));
      if (!is_near(mask[i] != 0 ? next : held, state[i * Columns + j])) ++wrong;
      if (!is_near(std::tanh(next), result[i * apart + j])) ++wrong;
    }
    for (std::int64_t j = Columns; j < apart && (i + 1) * apart <= result.size(); ++j) {
      if (std::memcmp(&result[i * apart + j], &untouched[i * apart + j], sizeof(float)) != 0) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

/// The bounds of both functions, and two roundings more; also where the result is no normal number.
template <int Lanes>
void check_gated_tanh(Random &random) {
  std::int64_t wrong = 0;
  for (int n = 0; n < 20000; ++n) {
    float x[Lanes], y[Lanes], found[Lanes];
    for (int i = 0; i < Lanes; ++i) {
      x[i] = static_cast<float>(random.real() * (random.chance(50) ? 40 : 130));
      y[i] = static_cast<float>(random.real() * std::pow(10.0, (random.chance(50) ? 2 : 38) * random.real()));
    }
    store<float, Lanes>(found, gated_tanh_of<Lanes>(load<float, Lanes>(x), load<float, Lanes>(y)));
    for (int i = 0; i < Lanes; ++i) {
      const double expected = sigmoid(static_cast<double>(x[i])) * std::tanh(static_cast<double>(y[i]));
      const double least = static_cast<double>(std::numeric_limits<float>::min());
      const double bound = 11 * 0x1p-24 * std::fmax(std::fabs(expected), least);
      if (!(std::fabs(static_cast<double>(found[i]) - expected) <= bound)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

KERNEL_TEST(elementwise) {
  Random random(91);
  for (int i = 0; i < 20; ++i) {
    check_gates<1>(random);
    check_gates<3>(random);
    check_gates<4>(random);
    check_gates<7>(random);
    check_gates<8>(random);
    check_gates<13>(random);
    check_gates<16>(random);
    check_gates<20>(random);
    check_gates<32>(random);
    check_gates<39>(random);
    check_gates<64>(random);
    check_gates<96>(random);
  }
  check_gated_tanh<kLanes<float>>(random);
  check_gated_tanh<1>(random);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
