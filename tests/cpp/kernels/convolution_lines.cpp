// convolution_lines.cpp - convolutions along one axis or with few features: adjacent outputs, and vectors along
// windows.
#include <initializer_list>

#include "convolutions.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// Few features and wide windows: adjacent outputs are computed as one.
void test_adjacent() {
  Random random(55);
  // Half of a vector most often: then two outputs fill one.
  const std::int64_t half = kLanes<float> / 2, features[] = {2, 4, 8, 16, half, half, half};
  int adjacent = 0;
  for (int i = 0; i < 120; ++i) {
    Convolution c =
        same_size(random.integer(1, 2), random.integer(1, 9), random.pick(features), random.integer(1, 3), 1, 1, 1, 0);
    for (std::int64_t axis = 0; axis < c.rank; ++axis) {
      const bool last = axis == c.rank - 1;
      c.kernel_size[axis] = last ? random.integer(3, 40) : random.integer(1, 4);
      c.stride[axis] = random.chance(70) ? 1 : 2;
      c.pad_low[axis] = random.integer(-1, c.kernel_size[axis]);
      c.reversed[axis] = random.chance(25);
      c.out_size[axis] = last ? random.integer(8, 40) * random.integer(1, 8) : random.integer(2, 9);
      const std::int64_t spanned = (c.out_size[axis] - 1) * c.stride[axis] + c.kernel_size[axis] - c.pad_low[axis];
      c.in_size[axis] = larger_of(spanned + random.integer(-4, 2), std::int64_t{1});
    }
    const Problem problem = with_layouts(random, c, 85);
    if (prefers_adjacent<float>(problem.c) && !prefers_winograd<float>(problem.c)) ++adjacent;
    check<float>(random, problem, 3, random.chance(30));
  }
  CHECK(adjacent > 30);
}

/// Features for more than half a vector: zeros fill the rest of it.
void test_padded() {
  Random random(61);
  int padded = 0;
  for (int i = 0; i < 160; ++i) {
    const std::int64_t features = random.integer(kLanes<float> / 2 + 1, kLanes<float> - 1);
    Convolution c = same_size(random.integer(1, 2), random.integer(1, 20), features, random.integer(1, 3), 1, 1, 1, 0);
    for (std::int64_t axis = 0; axis < c.rank; ++axis) {
      c.kernel_size[axis] = random.integer(1, 7);
      c.stride[axis] = random.chance(70) ? 1 : 2;
      c.kernel_dilation[axis] = random.chance(80) ? 1 : 2;
      c.pad_low[axis] = random.chance(40) ? 0 : random.integer(-1, c.kernel_size[axis]);
      c.reversed[axis] = random.chance(25);
      c.out_size[axis] = c.rank == 1 ? random.integer(60, 400) : random.integer(2, 30);
      const std::int64_t window = (c.kernel_size[axis] - 1) * c.kernel_dilation[axis] + 1;
      const std::int64_t spanned = (c.out_size[axis] - 1) * c.stride[axis] + window - c.pad_low[axis];
      c.in_size[axis] = larger_of(spanned - (random.chance(50) ? 0 : random.integer(-4, 2)), std::int64_t{1});
    }
    const Problem problem = with_layouts(random, c, 85);
    padded += method_of<float>(problem.c) == kNumberOf<PaddedMethod>;
    check<float>(random, problem, 3, random.chance(30));
  }
  // Vectors of four elements have three features, which other methods compute.
  CHECK(padded > 30 || kLanes<float> == 4);
}

/// The same convolution with axes of one place: `before` the only one, or one after it.
Convolution with_single_axes(const Convolution &line, int before, int after) {
  Convolution c = line;
  c.rank = 1 + before + after;
  for (int axis = 0; axis < 3; ++axis) {
    const int from = axis == before ? 0 : 1;
    c.in_size[axis] = line.in_size[from];
    c.kernel_size[axis] = line.kernel_size[from];
    c.out_size[axis] = line.out_size[from];
    c.stride[axis] = line.stride[from];
    c.pad_low[axis] = line.pad_low[from];
    c.kernel_dilation[axis] = line.kernel_dilation[from];
    c.reversed[axis] = line.reversed[from];
  }
  return c;
}

/// Convolutions along one axis are divided along it, by every method; with more axes, they are right.
void test_lines() {
  Random random(58);
  const std::int64_t half = kLanes<float> / 2, features[] = {1, half, kLanes<float>, 3 * kLanes<float>};
  int divided[Methods::kCount] = {};
  for (int i = 0; i < 160; ++i) {
    Convolution c = same_size(1, random.integer(1, random.chance(50) ? 3 : 40), random.pick(features), 1, 1, 1, 1, 0);
    if (random.chance(25)) c = depthwise(c);
    c.kernel_size[0] = random.integer(3, 20);
    c.stride[0] = random.chance(70) ? 1 : 2;
    c.kernel_dilation[0] = random.chance(80) ? 1 : 2;
    c.reversed[0] = random.chance(25);
    c.pad_low[0] = random.chance(30) ? 0 : random.integer(-1, 9);
    c.out_size[0] = 8 * random.integer(40, 60);
    const std::int64_t window = (c.kernel_size[0] - 1) * c.kernel_dilation[0] + 1;
    const std::int64_t spanned = (c.out_size[0] - 1) * c.stride[0] + window - c.pad_low[0];
    c.in_size[0] = spanned - random.integer(0, 9);
    const Problem problem = with_layouts(random, c, 85);
    const Division division = division_of<float>(problem.c, 2);
    divided[method_of<float>(problem.c)] += division.count() == 2 && division.along == Along::kRows;
    check<float>(random, problem, 7, random.chance(20));
    check<float>(random, with_layouts(random, with_single_axes(c, i % 3, i % 3 == 0), 85), 7);
  }
  CHECK(divided[kNumberOf<WindowsMethod>] > 3 && divided[kNumberOf<DepthwiseMethod>] > 3);
  // Which of these is quicker depends on the level.
  CHECK(divided[kNumberOf<NarrowMethod>] + divided[kNumberOf<AdjacentMethod>] > 3);
}

/// One to a few output features: vectors run along the window.
void test_narrow() {
  Random random(56);
  int narrow = 0;
  for (int i = 0; i < 120; ++i) {
    Convolution c =
        same_size(random.integer(1, 2), random.integer(1, 40), random.integer(1, 5), random.integer(1, 3), 1, 1, 1, 0);
    for (std::int64_t axis = 0; axis < c.rank; ++axis) {
      const bool last = axis == c.rank - 1;
      c.kernel_size[axis] = random.integer(1, last ? 12 : 4);
      c.stride[axis] = random.chance(70) ? 1 : 2;
      c.kernel_dilation[axis] = last || random.chance(70) ? 1 : 2;
      c.pad_low[axis] = random.integer(-1, last ? 2 : c.kernel_size[axis]);
      c.reversed[axis] = random.chance(25);
      c.out_size[axis] = last ? random.integer(8, 90) : random.integer(1, 9);
      const std::int64_t window = (c.kernel_size[axis] - 1) * c.kernel_dilation[axis] + 1;
      const std::int64_t spanned = (c.out_size[axis] - 1) * c.stride[axis] + window - c.pad_low[axis];
      c.in_size[axis] = larger_of(spanned + random.integer(-3, 2), std::int64_t{1});
    }
    const Problem problem = with_layouts(random, c, 85);
    if (prefers_narrow<float>(problem.c)) ++narrow;
    check<float>(random, problem, 3, random.chance(30));
  }
  CHECK(narrow > 30);
  // Many segments of three elements, for as many columns as a vector has, or more.
  for (std::int64_t columns = 1; columns <= 9; ++columns) {
    Convolution gaps = same_size(1, 3, columns, 3, 9, 3, 1, 0);
    for (int axis = 0; axis < 3; ++axis) {
      gaps.kernel_dilation[axis] = 2;
      gaps.out_size[axis] = 5;
    }
    check<float>(random, with_layouts(random, gaps, 100), 3);
  }
  // No window meets the input.
  Convolution far = same_size(2, 24, 1, 2, 5, 3, 1, 0);
  for (int axis = 0; axis < 2; ++axis) {
    far.pad_low[axis] = 90;
    far.out_size[axis] = 20;
  }
  check<float>(random, with_layouts(random, far, 100), 3);
}
}  // namespace

KERNEL_TEST(convolution_lines) {
  test_adjacent();
  test_padded();
  test_lines();
  test_narrow();
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
