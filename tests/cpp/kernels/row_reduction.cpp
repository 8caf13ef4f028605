// row_reduction.cpp - the largest element and the sum of each window of a row, against the definition in double.
#include "kernels/pooling/row_reduction.h"

#include <cmath>
#include <limits>

#include "check.h"
#include "random.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// Whether a result is that of the elements from `begin` to `end` of a row; a sum, but for rounding.
template <class T>
bool is_reduced(const RowReduction &r, const T *row, std::int64_t begin, std::int64_t end, T result) {
  double total = r.initial, magnitude = 0;
  for (std::int64_t k = begin; k < end; ++k) {
    const double value = static_cast<double>(row[k]);
    total = r.reducer == Reducer::kSum ? total + value : value > total ? value : total;
    magnitude += std::fabs(value);
  }
  const double found = static_cast<double>(result);
  if (std::isnan(total)) return std::isnan(found);
  if (r.reducer == Reducer::kMaximum || std::isinf(total)) return !(found < total) && !(found > total);
  // Of n elements, the longest branch of the tree adds n / 4 + 8 at most.
  const double steps = static_cast<double>(end - begin) / 4 + 8;
  return std::fabs(found - total) <= steps * static_cast<double>(std::numeric_limits<T>::epsilon()) * magnitude;
}

template <class T>
void check(Random &random, const RowReduction &r) {
  Buffer<T> in(r.rows * r.size), out(r.rows * r.windows);
  in.fill(random);
  const T specials[] = {static_cast<T>(NAN), static_cast<T>(INFINITY), static_cast<T>(-INFINITY), T{0}};
  for (int i = 0; i < 3 && in.size() > 0; ++i) in[random.integer(0, in.size() - 1)] = random.pick(specials);
  row_reduction(r, in.data(), out.data());
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < r.rows; ++row)
    for (std::int64_t w = 0; w < r.windows; ++w) {
      const std::int64_t start = w * r.window - r.pad_low;
      const std::int64_t begin = larger_of(start, std::int64_t{0}), end = smaller_of(start + r.window, r.size);
      if (!is_reduced(r, in.data() + row * r.size, begin, end, out[row * r.windows + w])) ++wrong;
    }
  CHECK(wrong == 0);
}

template <class T>
void test_random(std::uint64_t seed, int count) {
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    const bool sum = random.chance(60);
    RowReduction r{sum ? Reducer::kSum : Reducer::kMaximum,
                   sum                 ? 0.0
                   : random.chance(70) ? -INFINITY
                                       : 0.25,
                   random.integer(1, 9),
                   random.integer(1, 150),
                   1,
                   0,
                   0};
    if (random.chance(30)) {
      r.window = r.size;
    } else if (random.chance(30)) {
      r.windows = random.integer(1, 6);
      r.window = random.integer(1, 70);
      r.size = r.windows * r.window;
    } else {
      // Windows may be outside the row altogether, or leave out its ends.
      r.window = random.integer(1, 40);
      r.windows = random.integer(1, r.size / r.window + 2);
      r.pad_low = random.integer(-3, r.window + 2);
    }
    check<T>(random, r);
  }
}

}  // namespace

KERNEL_INSTANCES(row_reduction<float>)

KERNEL_TEST(row_reduction) {
  test_random<float>(70, 600);
  test_random<double>(71, 100);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
