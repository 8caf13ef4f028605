// convolution.cpp - convolutions of all kinds, against XLA's definition.
#include <initializer_list>

#include "convolutions.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

template <class T>
void test_random(std::uint64_t seed, int count) {
  Random random(seed);
  const std::int64_t largest[] = {40, 14, 6};
  const std::int64_t features[] = {1, 1, 2, 3, 4, 8, 16, 17, 20, 36};
  for (int i = 0; i < count; ++i) {
    Convolution c{};
    c.rank = random.integer(1, 3);
    c.batch = random.integer(1, 3);
    c.groups = random.chance(70) ? 1 : random.integer(2, 3);
    c.in_features = random.pick(features) * c.groups;
    c.out_features = random.pick(features) * c.groups;
    draw_windows(random, c, largest[c.rank - 1], random.chance(30));
    check<T>(random, with_layouts(random, c));
  }
}

template <class T>
void test_depthwise(std::uint64_t seed, int count) {
  Random random(seed);
  const std::int64_t features[] = {2, 3, 5, 8, 15, 16, 17, 24, 33, 40};
  for (int i = 0; i < count; ++i) {
    Convolution c{};
    c.rank = random.integer(1, 3);
    c.batch = random.integer(1, 2);
    c.groups = c.in_features = random.pick(features);
    c.out_features = c.in_features * (random.chance(70) ? 1 : random.integer(2, 3));
    draw_windows(random, c, c.rank == 1 ? 60 : 14, random.chance(10));
    check<T>(random, with_layouts(random, c));
  }
}

/// Rows of all lengths, in tiles at their ends and between them.
template <class T>
void test_depthwise_tiles(std::uint64_t seed) {
  Random random(seed);
  const std::int64_t features[] = {16, 17, 40};
  for (const std::int64_t kernel : {3, 5})
    for (const std::int64_t stride : {1, 2})
      for (std::int64_t size = kernel; size < 64; ++size)
        check<T>(random, with_layouts(random, depthwise(same_size(1, 0, random.pick(features), 1, size, kernel, stride,
                                                                  random.integer(0, kernel)))));
}

/// Shapes that take each way through the pieces, blocks and tiles.
void test_large() {
  Random random(42);
  const Convolution cases[] = {
      same_size(1, 1, 36, 1, 5000, 512, 64, 0),  // long filters on one feature, in place
      same_size(1, 1, 4, 1, 200000, 9, 1, 4),    // padded input in several pieces along its axis
      same_size(30, 1, 3, 2, 64, 3, 1, 1),       // several images in a piece
      same_size(1, 2, 20, 2, 300, 3, 2, 1),      // pieces of rows
      same_size(1, 4, 3, 3, 60, 3, 1, 1),        // pieces that hold little more than a row of windows
      same_size(2, 64, 64, 2, 12, 3, 1, 1),      // inner dimension in several blocks
      same_size(1, 40, 200, 2, 16, 1, 1, 0),     // a plain product
      same_size(1, 48, 1, 2, 20, 5, 1, 2),       // one output feature: vectors along the window
      same_size(1, 70, 3, 1, 50, 7, 1, 3),
      same_size(2, 8, 16, 2, 40, 3, 1, 1),             // runs of many rows
      same_size(1, 6, 130, 2, 66, 2, 2, 0),            // strips of a run that are packed
      same_size(1, 100, 96, 2, 7, 3, 1, 1),            // weights in panels: more of them than of the image
      same_size(2, 48, 64, 2, 30, 3, 1, 1),            // runs of rows
      same_size(1, 260, 160, 2, 15, 2, 2, 0),          // two segments are more than a block
      same_size(1, 96, 80, 2, 3, 3, 1, 0),             // a single row
      depthwise(same_size(1, 0, 71, 2, 60, 3, 1, 1)),  // blocks of rows and features
      depthwise(same_size(2, 0, 66, 2, 61, 5, 2, 2)),
  };
  for (const Convolution &c : cases) {
    const std::int64_t elements = c.batch * c.out_features * product(c.out_size, c.rank);
    check<float>(random, with_layouts(random, c), elements / 3000 + 1);
  }
  // Large weights in panels, and as they are: blocks of the window, a stride, groups of rows, several images.
  for (const Convolution &c : {same_size(2, 60, 128, 2, 7, 3, 1, 1), same_size(1, 260, 160, 2, 15, 2, 2, 0),
                               same_size(1, 512, 160, 2, 17, 1, 1, 0), same_size(3, 130, 256, 1, 19, 3, 1, 1)})
    check<float>(random, with_layouts(random, c, 100), 20);
  // Transposed: the phases of a piece of one image, then those of the next.
  Convolution c = same_size(3, 64, 20, 2, 40, 2, 1, 1);
  for (int axis = 0; axis < 2; ++axis) {
    c.base_dilation[axis] = 2;
    c.out_size[axis] = outputs(c.in_size[axis], 2, 2, c.kernel_size[axis], 1, 1);
  }
  check<float>(random, with_layouts(random, c), 100);
}

/// No output features, images or places: nothing to do, and nothing is touched.
void test_empty() {
  Random random(43);
  Convolution c = same_size(0, 3, 4, 2, 5, 3, 1, 1);
  check<float>(random, with_layouts(random, c));
  c = same_size(2, 3, 4, 2, 5, 3, 1, 1);
  c.out_size[0] = 0;
  check<float>(random, with_layouts(random, c));
}

}  // namespace

KERNEL_INSTANCES(convolution<T>, convolution_scratch<T>)

KERNEL_TEST(convolution) {
  test_random<float>(40, 400);
  test_random<double>(41, 120);
  test_depthwise<float>(44, 150);
  test_depthwise<double>(45, 40);
  test_depthwise_tiles<float>(53);
  test_depthwise_tiles<double>(54);
  test_large();
  test_empty();
  test_random<std::int8_t>(46, 25);
  test_random<std::int32_t>(47, 25);
  test_random<F16>(48, 25);
  test_random<BF16>(49, 10);
  test_random<Complex64>(50, 10);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
