// convolution_decomposed.cpp - convolutions with long windows, sub-filter by sub-filter, against the definition, and
// beside the kernel that follows it.
#include "epilogues.h"
#include "tests.h"
#include "transforms.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// Steps of dense images, and of weights in panels or rows, for sizes that are given.
Convolution with_dense_steps(Convolution c, bool panels) {
  c.in_feature = c.out_feature = c.kernel_out = 1;
  c.panel = panels ? num_taps(c) * c.in_features * kPanel : 0;
  c.kernel_in = panels ? kPanel : c.out_features;
  std::int64_t in = c.in_features, out = c.out_features, tap = c.in_features * c.kernel_in;
  for (std::int64_t axis = c.rank - 1; axis >= 0; --axis) {
    c.in_spatial[axis] = in;
    c.out_spatial[axis] = out;
    c.kernel_spatial[axis] = tap;
    in *= c.in_size[axis];
    out *= c.out_size[axis];
    tap *= c.kernel_size[axis];
  }
  c.in_batch = in;
  c.out_batch = out;
  return c;
}

/// Any shape, of a line or of images; windows may be longer than the input, or reach nothing of it.
Convolution draw_long(Random &random, std::int64_t longest) {
  const std::int64_t features[] = {1, 2, 3, 4, 5, 8, 16, 19, 33}, columns[] = {8, 16, 24, 32, 48};
  for (;;) {
    Convolution c{};
    c.batch = random.integer(1, 3);
    c.groups = 1;
    c.rank = random.integer(1, 2);
    c.in_features = random.pick(features);
    c.out_features = random.pick(columns);
    for (int axis = 0; axis < 3; ++axis)
      c.in_size[axis] = c.kernel_size[axis] = c.out_size[axis] = c.stride[axis] = c.kernel_dilation[axis] =
          c.base_dilation[axis] = 1;
    for (std::int64_t axis = 0; axis < c.rank; ++axis) {
      const bool last = axis == c.rank - 1;
      c.stride[axis] = random.chance(60) ? 1 : random.integer(2, 4);
      c.kernel_size[axis] = last ? c.stride[axis] * random.integer(kLineTaps, 40) : random.integer(1, 4);
      c.reversed[axis] = random.chance(25);
      c.pad_low[axis] = random.integer(-2, c.kernel_size[axis]);
      c.out_size[axis] = last ? random.integer(1, longest) : random.integer(1, 6);
      const std::int64_t spanned = (c.out_size[axis] - 1) * c.stride[axis] + c.kernel_size[axis] - c.pad_low[axis];
      c.in_size[axis] = larger_of(spanned + random.integer(-9, 4), std::int64_t{1});
    }
    c = with_dense_steps(c, c.out_features % kPanel == 0 && random.chance(50));
    if (fits_decomposed<float>(c)) return c;
  }
}

void test_sums() {
  Random random(94);
  for (int i = 0; i < 80; ++i) {
    const Convolution c = draw_long(random, 90);
    Both both(c, kNumberOf<DecomposedMethod>);
    both.fill(random);
    both.run();
    std::int64_t wrong = 0;
    const double small = 5e-6 * std::sqrt(window_elements(c));
    for (std::int64_t j = 0; j < both.direct.size(); ++j)
      wrong += std::fabs(static_cast<double>(both.direct[j] - both.winograd[j])) > small;
    CHECK(wrong == 0);
  }
}

/// Windows of which most is padding have shorter sums.
bool is_mostly_inside(const Convolution &c) {
  bool inside = true;
  for (int axis = 0; axis < c.rank; ++axis) inside = inside && c.in_size[axis] >= 2 * c.kernel_size[axis];
  return inside;
}

void test_errors() {
  Random random(95);
  int compared = 0;
  for (int i = 0; i < 100; ++i) {
    const Convolution c = draw_long(random, 200);
    if (!is_mostly_inside(c) || c.out_size[c.rank - 1] < 20) continue;
    Both both(c, kNumberOf<DecomposedMethod>);
    both.fill(random);
    const bool positive = random.chance(50);
    for (float &value : both.in) value = positive && value < 0 ? 0 : value;
    both.run();
    // Few of the long sums.
    check_errors(both, 500);
    ++compared;
  }
  CHECK(compared > 5);
}

void test_not_finite() {
  Random random(96);
  NotFinite checked;
  for (int i = 0; i < 60; ++i) {
    const Convolution c = draw_long(random, 60);
    Both both(c, kNumberOf<DecomposedMethod>);
    checked.check(random, both);
  }
  CHECK(checked.infinite > 1000 && checked.large > 1000);
}

/// One that this method computes.
Convolution draw_preferred(Random &random, std::int64_t longest) {
  for (;;) {
    const Convolution c = draw_long(random, longest);
    if (method_of<float>(c) == kNumberOf<DecomposedMethod>) return c;
  }
}

/// Images, outputs from an even one on, rows and panels of columns have the bits of the whole.
void test_ranges() {
  Random random(97);
  int compared = 0;
  for (int i = 0; i < 60; ++i) {
    const Convolution c = draw_preferred(random, 300);
    Both both(c, kNumberOf<DecomposedMethod>);
    both.fill(random);
    both.run();
    const int axis = i % 3;
    compared += check_whole_ranges(random, both, axis, axis == 0 ? 1 : axis == 2 ? kPanel : c.rank == 1 ? 2 : 1);
    if (c.rank == 1 && c.out_size[0] > 1) CHECK(!same_bits<float>(c, row_range(c, {1, c.out_size[0]}).shape));
    Buffer<float> parts(both.winograd.size());
    Buffer<char> scratch(static_cast<std::int64_t>(convolution_scratch<float>(c)));
    const OneThread thread(random, [&c](std::int64_t most) { return convolution_part_scratch<float>(c, most); });
    convolution_in_parts<float>(thread.shared(), c, both.in.data(), both.kernel.data(), parts.data(), scratch.data());
    check_same_bits(both.winograd, parts);
  }
  CHECK(compared > 30);
}

/// What is worth it depends on one image, and so do its bits.
void test_choice() {
  Convolution c{};
  c.batch = c.groups = c.rank = 1;
  c.in_features = 128;
  c.out_features = 16;
  for (int axis = 0; axis < 3; ++axis)
    c.in_size[axis] = c.kernel_size[axis] = c.out_size[axis] = c.stride[axis] = c.kernel_dilation[axis] =
        c.base_dilation[axis] = 1;
  c.in_size[0] = c.out_size[0] = 128;
  c.kernel_size[0] = 64;
  c.pad_low[0] = 31;
  c = with_dense_steps(c, true);
  CHECK(prefers_decomposed<float>(c) && !prefers_decomposed<double>(c));
  CHECK(method_of<float>(c) == kNumberOf<DecomposedMethod>);
  const Division halves = division_of<float>(c, 2);
  CHECK(halves.count() == 2 && halves.along == Along::kRows);
  Convolution other = c;
  other.batch = 16;
  CHECK(prefers_decomposed<float>(other));
  other = c;
  other.in_size[0] = other.out_size[0] = 2;
  CHECK(!prefers_decomposed<float>(other));
  other = c;
  other.kernel_dilation[0] = 2;
  CHECK(!fits_decomposed<float>(other));
  other = c;
  other.stride[0] = 3;
  CHECK(!fits_decomposed<float>(other));
}

/// With what follows, also over the sums and over what is added.
void test_epilogues() {
  Random random(98);
  for (int i = 0; i < 12; ++i) {
    const Convolution c = draw_preferred(random, 120);
    Both both(c, kNumberOf<DecomposedMethod>);
    both.fill(random);
    both.run();
    check_epilogues(random, c, both.in.data(), both.kernel.data(), both.winograd);
  }
}

}  // namespace

KERNEL_TEST(convolution_decomposed) {
  test_sums();
  test_errors();
  test_not_finite();
  test_ranges();
  test_choice();
  test_epilogues();
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
