// row_softmax.cpp - softmax of rows against the definition in double.
#include "kernels/pooling/row_softmax.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "check.h"
#include "random.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// Whether results are the softmax of a row plus a bias, but for rounding: the differences are rounded to floats first.
bool is_softmax(const float *row, const float *bias, std::int64_t size, const float *found) {
  float largest = -INFINITY;
  const auto at = [row, bias](std::int64_t k) { return bias != nullptr ? row[k] + bias[k] : row[k]; };
  const auto power = [&](std::int64_t k) { return std::exp(static_cast<double>(at(k) - largest)); };
  bool has_nan = false;
  for (std::int64_t k = 0; k < size; ++k) {
    largest = std::fmax(largest, at(k));
    has_nan = has_nan || std::isnan(at(k));
  }
  has_nan = has_nan || std::isinf(largest);
  double total = 0;
  for (std::int64_t k = 0; k < size; ++k) total += power(k);
  // The exponential has 3 units in the last place, and the sum those of its longest branch.
  const double epsilon = static_cast<double>(std::numeric_limits<float>::epsilon());
  const double bound = (8 + static_cast<double>(size) / 16) * epsilon;
  for (std::int64_t k = 0; k < size; ++k) {
    const double expected = power(k) / total, value = static_cast<double>(found[k]);
    if (has_nan ? !std::isnan(value) : !(std::fabs(value - expected) <= bound * expected + 1e-37)) return false;
  }
  return true;
}

void check(Random &random, const RowSoftmax &s, bool has_bias, bool in_place) {
  Buffer<float> in(s.rows * s.size), bias(s.size), out(s.rows * s.size);
  in.fill(random);
  bias.fill(random);
  const float specials[] = {NAN, INFINITY, -INFINITY, 50};
  for (int i = 0; i < 2; ++i) in[random.integer(0, in.size() - 1)] = random.pick(specials);
  const Buffer<float> before(in);
  const float *added = has_bias ? bias.data() : nullptr;
  float *const to = in_place ? in.data() : out.data();
  row_softmax<float>(s, in.data(), added, to);
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    if (!is_softmax(before.data() + row * s.size, added, s.size, to + row * s.size)) ++wrong;
    // A row alone has the same bits.
    Buffer<float> alone(s.size);
    row_softmax<float>({1, s.size}, before.data() + row * s.size, added, alone.data());
    for (std::int64_t k = 0; k < s.size; ++k) {
      const float a = alone[k], b = to[row * s.size + k];
      if (std::isnan(a) ? !std::isnan(b) : std::memcmp(&a, &b, sizeof a) != 0) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

KERNEL_INSTANCES(row_softmax<float>)

KERNEL_TEST(row_softmax) {
  Random random(90);
  for (int i = 0; i < 300; ++i)
    check(random, {random.integer(1, 5), random.integer(1, 400)}, random.chance(50), random.chance(50));
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
