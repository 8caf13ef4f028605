// rearrange.cpp - copies between arrays with gaps and in other orders, against the definition.
#include "kernels/elementwise/rearrange.h"

#include <cstring>

#include "check.h"
#include "random.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// Gives axes their distances in an order, the fastest first, with a gap here and there; returns how many elements.
inline std::int64_t spread(Random &random, const std::int64_t (&size)[6], const int (&order)[6],
                           std::int64_t (&step)[6]) {
  std::int64_t next = 1;
  for (const int axis : order) {
    step[axis] = next;
    next *= size[axis];
    if (random.chance(20)) next += random.integer(1, 5);
  }
  return next;
}

/// With so many elements in a row of the source and of the result.
inline void test_copies(Random &random, Rearrangement r, std::int64_t from, std::int64_t to) {
  r.rows = random.integer(1, 3);
  r.in_row = from;
  r.out_row = to;
  from *= r.rows;
  to *= r.rows;
  Buffer<float> in(from), out(to);
  in.fill(random);
  Buffer<float> expected(out);
  const std::int64_t row = r.size[0] * r.size[1] * r.size[2] * r.size[3] * r.size[4] * r.size[5];
  for (std::int64_t at = 0; at < r.rows * row; ++at) {
    std::int64_t rest = at % row, source = at / row * r.in_row, target = at / row * r.out_row;
    for (int axis = 0; axis < 6; rest /= r.size[axis++]) {
      source += rest % r.size[axis] * r.in_step[axis];
      target += rest % r.size[axis] * r.out_step[axis];
    }
    expected[target] = in[source];
  }
  rearrange(r, in.data(), out.data());
  CHECK(std::memcmp(expected.data(), out.data(), static_cast<std::size_t>(to) * sizeof(float)) == 0);
}

}  // namespace

KERNEL_INSTANCES(rearrange<float>)

KERNEL_TEST(rearrange) {
  Random random(90);
  for (int i = 0; i < 400; ++i) {
    Rearrangement r{};
    for (std::int64_t &size : r.size) size = random.integer(1, 3);
    r.size[4] = random.integer(1, 70);
    r.size[5] = random.chance(40) ? random.integer(2, 3) : random.integer(1, 150);
    // The source has the last axis first, or that before it, or another one.
    const int orders[][6] = {{5, 4, 3, 2, 1, 0}, {4, 5, 3, 2, 1, 0}, {4, 3, 2, 5, 0, 1}, {3, 4, 5, 2, 1, 0}};
    const std::int64_t from = spread(random, r.size, orders[random.integer(0, 3)], r.in_step);
    const std::int64_t to = spread(random, r.size, orders[random.chance(90) ? 0 : 3], r.out_step);
    test_copies(random, r, from, to);
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
