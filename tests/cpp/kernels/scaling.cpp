// scaling.cpp - features of images multiplied by factors, against the definition.
#include "kernels/elementwise/scaling.h"

#include <cmath>
#include <cstring>

#include "check.h"
#include "random.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

void run_in_order(void *, std::size_t parts, void (*task)(void *argument, std::size_t part), void *argument) {
  for (std::size_t i = parts; i-- > 0;) task(argument, i);
}

bool same(float found, float expected) {
  return std::isnan(expected) ? std::isnan(found) : std::memcmp(&found, &expected, sizeof found) == 0;
}

void check(Random &random, const Scaling &s) {
  const std::int64_t rows = s.batch * s.rows;
  Buffer<float> in(rows * s.features), factors(s.batch * s.features), out(rows * s.features);
  in.fill(random);
  factors.fill(random);
  const float specials[] = {NAN, INFINITY, -INFINITY, -0.0F};
  for (int i = 0; i < 4; ++i) in[random.integer(0, in.size() - 1)] = random.pick(specials);
  factors[random.integer(0, factors.size() - 1)] = random.pick(specials);
  Buffer<float> expected(in.size());
  for (std::int64_t i = 0; i < in.size(); ++i)
    expected[i] = in[i] * factors[i / s.features / s.rows * s.features + i % s.features];
  const auto wrong = [&](const Buffer<float> &found) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < found.size(); ++i) count += same(found[i], expected[i]) ? 0 : 1;
    return count;
  };
  scaling<float>(s, in.data(), factors.data(), out.data());
  CHECK(wrong(out) == 0);
  const Threads threads{static_cast<std::size_t>(random.integer(2, 5)), run_in_order, nullptr, nullptr, 0};
  out.fill(random);
  scaling_in_parts<float>({threads, random.integer(1, 5)}, s, in.data(), factors.data(), out.data());
  CHECK(wrong(out) == 0);
  scaling_in_parts<float>({threads, 5}, s, in.data(), factors.data(), in.data());  // in place
  CHECK(wrong(in) == 0);
}

}  // namespace

KERNEL_INSTANCES(scaling_in_parts<float>)

KERNEL_TEST(scaling) {
  Random random(97);
  for (int i = 0; i < 60; ++i) check(random, {random.integer(1, 3), random.integer(1, 9), random.integer(1, 70)});
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
