// winograd.cpp - Winograd's convolutions against the definition, and beside the kernel that follows it.
#include <initializer_list>

#include "epilogues.h"
#include "tests.h"
#include "transforms.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// Windows that have transforms.
struct Window {
  std::int64_t taps[2];
};
const Window kSquare{{3, 3}};
const Window kWindows[] = {kSquare,  kSquare,  kSquare,  {{1, 3}}, {{1, 5}}, {{5, 5}}, {{2, 3}},
                           {{5, 3}}, {{3, 5}}, {{3, 1}}, {{5, 1}}, {{5, 2}}, {{3, 7}}};

/// A convolution of dense images; the weights are in panels or rows.
Convolution with_sides(std::int64_t batch, std::int64_t rows, std::int64_t columns, std::int64_t in_features,
                       std::int64_t out_features, const std::int64_t (&pads)[4], bool panels,
                       const Window &window = kSquare, const std::int64_t (&dilations)[2] = {1, 1}) {
  Convolution c{};
  c.batch = batch;
  c.groups = 1;
  c.in_features = in_features;
  c.out_features = out_features;
  c.rank = 2;
  for (int axis = 0; axis < 3; ++axis) {
    const bool used = axis < 2;
    c.in_size[axis] = axis == 0 ? rows : used ? columns : 1;
    c.kernel_size[axis] = used ? window.taps[axis] : 1;
    c.stride[axis] = c.base_dilation[axis] = 1;
    c.kernel_dilation[axis] = used ? dilations[axis] : 1;
    c.pad_low[axis] = used ? pads[axis] : 0;
    const std::int64_t reach = (c.kernel_size[axis] - 1) * c.kernel_dilation[axis];
    c.out_size[axis] = used ? c.in_size[axis] + pads[axis] + pads[axis + 2] - reach : 1;
  }
  c.in_feature = c.out_feature = c.kernel_out = 1;
  c.in_spatial[1] = in_features;
  c.in_spatial[0] = columns * in_features;
  c.in_batch = rows * c.in_spatial[0];
  c.out_spatial[1] = out_features;
  c.out_spatial[0] = c.out_size[1] * out_features;
  c.out_batch = c.out_size[0] * c.out_spatial[0];
  c.panel = panels ? window.taps[0] * window.taps[1] * in_features * kPanel : 0;
  c.kernel_in = panels ? kPanel : out_features;
  c.kernel_spatial[1] = in_features * c.kernel_in;
  c.kernel_spatial[0] = window.taps[1] * c.kernel_spatial[1];
  return c;
}

/// The same convolution along a line, of images with one row.
Convolution as_line(Convolution c) {
  c.rank = 1;
  for (std::int64_t (*sizes)[3] : {&c.in_size, &c.kernel_size, &c.out_size, &c.stride, &c.pad_low, &c.kernel_dilation,
                                   &c.base_dilation, &c.in_spatial, &c.kernel_spatial, &c.out_spatial})
    (*sizes)[0] = (*sizes)[1];
  return c;
}

const std::int64_t kFeatures[] = {16, 17, 19, 24, 32, 45, 64, 100, 128, 256};
const std::int64_t kColumns[] = {16, 24, 32, 40, 48, 64, 80, 100, 112};

/// Any shape; with some, no tile is whole or needs no padding.
Convolution draw_convolution(Random &random, std::int64_t largest) {
  const Window &window = random.pick(kWindows);
  const bool is_line = window.taps[0] == 1 && random.chance(50);
  for (;;) {
    std::int64_t pads[4];
    for (std::int64_t &pad : pads) pad = random.integer(-2, 3);
    if (is_line) pads[0] = pads[2] = 0;
    const std::int64_t rows = is_line ? 1 : random.integer(1, largest);
    const std::int64_t columns = random.integer(1, is_line ? 4 * largest : largest);
    const std::int64_t most = random.chance(50) ? 1 : 3;
    const std::int64_t dilations[2] = {random.integer(1, most), random.integer(1, most)};
    const Convolution c = with_sides(random.integer(1, 3), rows, columns, random.pick(kFeatures), random.pick(kColumns),
                                     pads, random.chance(50), window, dilations);
    if (c.out_size[0] > 0 && c.out_size[1] > 0 && fits_winograd<float>(c)) return is_line ? as_line(c) : c;
  }
}

bool is_mostly_inside(const Convolution &c) {
  bool inside = true;
  for (int axis = 0; axis < c.rank; ++axis)
    inside = inside && c.in_size[axis] >= 2 * c.kernel_size[axis] * c.kernel_dilation[axis];
  return inside;
}

/// The number of Winograd's method for the windows of a convolution, whether or not that is the quickest.
int winograd_number(const Convolution &c) {
  if (has_windows<Tiling<3, 3>>(c)) return kNumberOf<WinogradMethod<Tiling<3, 3>>>;
  return has_windows<Tiling<1, 3>>(c) ? kNumberOf<WinogradMethod<Tiling<1, 3>>>
                                      : kNumberOf<WinogradMethod<Tiling<1, 5>>>;
}

/// Errors of each convolution that are compared.
const std::int64_t kErrors = 4000;

void test_errors() {
  Random random(90);
  int compared[2] = {}, divided = 0;
  for (int i = 0; i < 300; ++i) {
    const Convolution c = draw_convolution(random, 24);
    // Sums of windows of which most is padding are shorter; and the largest of few errors says little.
    if (!prefers_winograd<float>(c) || !is_mostly_inside(c) || c.batch * c.out_batch < kErrors) continue;
    Both both(c, winograd_number(c));
    both.fill(random);
    const bool positive = random.chance(50);
    for (float &value : both.in) value = positive && value < 0 ? 0 : value;
    both.run();
    check_errors(both, kErrors);
    ++compared[winograd_number(c) != kNumberOf<WinogradMethod<Tiling<3, 3>>>];
    divided += winograd_plan<float>(c).parts > 1;
  }
  CHECK(compared[0] > 10 && compared[1] > 10 && divided > 3);
}

void test_not_finite() {
  Random random(91);
  NotFinite checked;
  for (int i = 0; i < 60; ++i) {
    const Convolution c = draw_convolution(random, 16);
    Both both(c, winograd_number(c));
    checked.check(random, both);
  }
  CHECK(checked.infinite > 1000 && checked.large > 1000);
}

/// Images, rows from where tiles begin on, and panels of columns have the bits of the whole.
void test_ranges() {
  Random random(92);
  int compared = 0;
  for (int i = 0; i < 60; ++i) {
    const Convolution c = draw_convolution(random, 30);
    if (!prefers_winograd<float>(c)) continue;
    Both both(c, winograd_number(c));
    both.fill(random);
    both.run();
    const int axis = i % 3;
    const int side = static_cast<int>(unit_of<float>(c));
    compared += check_whole_ranges(random, both, axis, axis == 0 ? 1 : axis == 1 ? side : kPanel);
    if (side > 1 && c.out_size[0] > 1) CHECK(!same_bits<float>(c, row_range(c, {1, c.out_size[0]}).shape));
  }
  CHECK(compared > 10);
}

/// A convolution whose part is too small for transforms, or the other way round, has other bits.
void test_choice() {
  const std::int64_t pads[4] = {1, 1, 1, 1};
  const Convolution large = with_sides(1, 28, 28, 64, 64, pads, true);
  CHECK(prefers_winograd<float>(large) && !prefers_winograd<double>(large));
  CHECK(same_bits<float>(large, row_range(large, {0, 14}).shape));
  CHECK(!same_bits<float>(large, row_range(large, {0, 1}).shape));
  // Unless it is computed as the whole, where there are enough tiles for a product.
  const Convolution small = with_sides(1, 25, 5, 64, 64, pads, true);
  CHECK(prefers_winograd<float>(small));
  const Ranged<Convolution> parts[] = {column_range(small, {0, kPanel}), row_range(small, {14, 25}),
                                       row_range(small, {24, 25})};
  for (const Ranged<Convolution> &part : parts) {
    CHECK(same_bits<float>(small, part.shape) == prefers_winograd<float>(part.shape));
    CHECK(same_bits<float>(small, as_whole(small, part).shape) == fits_winograd<float>(part.shape));
  }
  CHECK(fits_winograd<float>(column_range(small, {0, kPanel}).shape));
  Convolution other = large;
  other.stride[1] = 2;
  other.out_size[1] = 14;
  CHECK(!fits_winograd<float>(other));
  other = large;
  other.base_dilation[0] = 2;
  CHECK(!fits_winograd<float>(other));
  // Tiles of windows with gaps are between each other.
  const Convolution apart = with_sides(1, 28, 28, 64, 64, {2, 1, 2, 1}, true, kSquare, {2, 1});
  CHECK(prefers_winograd<float>(apart) && apart.out_size[0] == 28);
  CHECK(same_bits<float>(apart, row_range(apart, {12, 28}).shape));
  CHECK(!same_bits<float>(apart, row_range(apart, {14, 28}).shape));
  // The last vector of columns may overlap the one before, but not two panels.
  CHECK(prefers_winograd<float>(with_sides(1, 28, 28, 64, 72, pads, false)));
  CHECK(!fits_winograd<float>(with_sides(1, 28, 28, 64, 72, pads, true)));
  // There are none along one axis for short sums.
  CHECK(fits_winograd<float>(with_sides(1, 28, 28, 64, 64, pads, true, {{1, 5}})));
  CHECK(fits_winograd<float>(with_sides(1, 28, 28, 64, 64, pads, true, {{3, 1}})));
  // Rows of 5 places are transformed by themselves, and may be cut anywhere.
  const Convolution rows = with_sides(1, 28, 28, 64, 64, pads, true, {{5, 5}});
  CHECK(prefers_winograd<float>(rows));
  CHECK(same_bits<float>(rows, row_range(rows, {13, 26}).shape));
  // Those with gaps are divided into parts of neighbours, unless there is one block.
  const Convolution gaps = with_sides(1, 60, 60, 64, 64, {6, 6, 6, 6}, true, {{5, 5}}, {3, 3});
  CHECK(winograd_plan<float>(gaps).parts == 3 && winograd_plan<float>(rows).parts == 1);
  CHECK(same_bits<float>(gaps, row_range(gaps, {13, 60}).shape));
  CHECK(!fits_winograd<float>(with_sides(1, 28, 28, 32, 64, pads, true, {{1, 5}})));
}

/// With what follows, also over the sums and over what is added.
void test_epilogues() {
  Random random(93);
  for (int i = 0; i < 18; ++i) {
    const Convolution c = draw_convolution(random, 30);
    if (!prefers_winograd<float>(c)) continue;
    Both both(c, winograd_number(c));
    both.fill(random);
    both.run();
    check_epilogues(random, c, both.in.data(), both.kernel.data(), both.winograd);
  }
}

}  // namespace

KERNEL_TEST(winograd) {
  test_errors();
  test_not_finite();
  test_ranges();
  test_choice();
  test_epilogues();
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
