// byte_convolution.cpp - convolutions of 8-bit integers: each sum is that of the definition, with all instructions.
#include "kernels/bytes/parts.h"

#include <initializer_list>

#include "check.h"
#include "kernels/convolution/generic.h"
#include "panels.h"
#include "random.h"
#include "ranges.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// Features last everywhere, with gaps between the pixels of the input in some cases.
Convolution random_convolution(Random &random, std::int64_t rank) {
  Convolution c{};
  c.batch = random.integer(1, 3), c.groups = 1, c.rank = rank;
  c.in_features = random.pick({1, 2, 3, 4, 7, 8, 16, 33, 64}), c.out_features = random.pick({1, 3, 16, 17, 40, 70});
  c.in_feature = random.chance(10) ? 2 : 1;
  std::int64_t in_step = c.in_features * c.in_feature + (random.chance(20) ? 3 : 0), out_step = c.out_features;
  c.kernel_out = 1, c.kernel_in = c.out_features, c.out_feature = 1;
  std::int64_t kernel_step = c.in_features * c.out_features;
  for (std::int64_t d = rank - 1; d >= 0; --d) {
    c.kernel_size[d] = random.integer(1, 4), c.kernel_dilation[d] = random.chance(20) ? 2 : 1;
    c.stride[d] = random.integer(1, 2), c.base_dilation[d] = 1;
    c.in_size[d] = random.integer(1, rank == 3 ? 4 : 9), c.pad_low[d] = random.integer(-1, 4);
    c.out_size[d] = random.integer(1, 7);
    c.in_spatial[d] = in_step, c.kernel_spatial[d] = kernel_step, c.out_spatial[d] = out_step;
    in_step *= c.in_size[d], kernel_step *= c.kernel_size[d], out_step *= c.out_size[d];
  }
  c.in_batch = in_step, c.out_batch = out_step;
  return c;
}

/// The sum of the window of an output.
std::int32_t sum_of(const Convolution &c, const std::int64_t (&at)[4], std::int64_t feature, const std::int8_t *in,
                    const std::int8_t *kernel, std::int8_t padding) {
  const Axes axes = axes_of(c);
  const Axis(&axis)[kAxes] = axes.axis;
  std::int32_t sum = 0;
  for (std::int64_t z = 0; z < axis[0].kernel_size; ++z)
    for (std::int64_t y = 0; y < axis[1].kernel_size; ++y)
      for (std::int64_t x = 0; x < axis[2].kernel_size; ++x)
        for (std::int64_t f = 0; f < c.in_features; ++f) {
          if (c.groups > 1 && f != feature) continue;
          const std::int64_t under[kAxes] = {element_under(axis[0], at[1], z), element_under(axis[1], at[2], y),
                                             element_under(axis[2], at[3], x)};
          std::int64_t from = at[0] * c.in_batch + f * c.in_feature;
          for (int a = 0; a < kAxes; ++a) from += under[a] * axis[a].in_step;
          const bool inside = under[0] >= 0 && under[1] >= 0 && under[2] >= 0;
          const std::int8_t weight = kernel[z * axis[0].tap_step + y * axis[1].tap_step + x * axis[2].tap_step +
                                            (c.groups > 1 ? 0 : f * c.kernel_in) + feature];
          sum += (inside ? in[from] : padding) * weight;
        }
  return sum;
}

void check_sums(const Convolution &c, const Buffer<std::int8_t> &in, const Buffer<std::int8_t> &kernel,
                std::int8_t padding, const Buffer<std::int32_t> &out) {
  const Axes axes = axes_of(c);
  std::int64_t wrong = 0, next = 0;
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t z = 0; z < axes.axis[0].out_size; ++z)
      for (std::int64_t y = 0; y < axes.axis[1].out_size; ++y)
        for (std::int64_t x = 0; x < axes.axis[2].out_size; ++x)
          for (std::int64_t f = 0; f < c.out_features; ++f)
            if (out[next++] != sum_of(c, {b, z, y, x}, f, in.data(), kernel.data(), padding)) ++wrong;
  CHECK(wrong == 0);
}

/// Threads that share a convolution compute the same sums.
void check_parts(Random &random, const Convolution &c, const Buffer<std::int8_t> &in, const Buffer<std::int8_t> &kernel,
                 const Buffer<std::int8_t> &weights, std::int8_t padding) {
  const OneThread thread(
      random, [&c](std::int64_t most) { return byte_convolution_part_scratch<std::int8_t, std::int32_t>(c, most); });
  Buffer<std::int32_t> out(count_outputs(c) * c.out_features);
  Buffer<char> scratch(static_cast<std::int64_t>(byte_convolution_scratch<std::int8_t, std::int32_t>(c)));
  byte_convolution_in_parts<std::int8_t, std::int32_t>(thread.shared(), c, padding, in.data(), weights.data(),
                                                       out.data(), scratch.data());
  check_sums(c, in, kernel, padding, out);
}

/// The instructions of the level, those beside it that this CPU has, and a kernel that is not packed.
void check_all(Random &random, Convolution c) {
  const std::int64_t depth = window_depth(c), outputs = count_outputs(c);
  Buffer<std::int8_t> in((c.batch - 1) * c.in_batch + c.in_batch), kernel(depth * c.out_features);
  in.fill(random);
  kernel.fill(random);
  const std::int8_t padding = static_cast<std::int8_t>(random.bits());
  const Buffer<std::int8_t> panels = packed(kernel, depth, c.out_features, run_elements(c));
  Buffer<std::int32_t> out(outputs * c.out_features);
  Buffer<char> scratch(static_cast<std::int64_t>(byte_convolution_scratch<std::int8_t, std::int32_t>(c)));
  byte_convolution<std::int8_t, std::int32_t>(c, padding, in.data(), kernel.data(), out.data(), scratch.data());
  check_sums(c, in, kernel, padding, out);
  c.panel = byte_panel(packed_depth(c));
  byte_convolution<std::int8_t, std::int32_t>(c, padding, in.data(), panels.data(), out.data(), scratch.data());
  check_sums(c, in, kernel, padding, out);
  const WindowRows rows(c, in.data(), padding);
  const StoredSums sums{out.data(), c.out_features, 1};
  const auto check = [&](auto multiply) {
    multiply(rows, byte_range(c), panels.data(), sums, scratch.data());
    check_sums(c, in, kernel, padding, out);
  };
  check(multiply_rows_by<Bytes, WindowRows, StoredSums>);
#if defined(__AVX512BW__)
  if (has_vnni()) check(multiply_rows_by<BytesVnni, WindowRows, StoredSums>);
  if (has_amx_int8()) check(multiply_rows_by<BytesAmx, WindowRows, StoredSums>);
#endif
  check_parts(random, c, in, kernel, panels, padding);
  c.panel = 0;
  check_parts(random, c, in, kernel, kernel, padding);
}

/// A filter for each feature, along at most two axes; with many features in long lines, there are several blocks.
Convolution random_depthwise(Random &random) {
  const std::int64_t rank = random.integer(1, 2);
  Convolution c = random_convolution(random, rank);
  const std::int64_t features = c.in_spatial[rank - 1] / c.in_feature;
  c.in_feature = 1;
  c.in_features = c.out_features = c.groups = random.chance(10) ? random.integer(70, 300) : features < 2 ? 2 : features;
  c.kernel_in = c.in_features;
  std::int64_t in_step = c.in_features, kernel_step = c.in_features;
  for (std::int64_t d = rank - 1; d >= 0; --d) {
    if (random.chance(50)) c.kernel_size[d] = random.pick({3, 5});
    if (random.chance(30)) c.in_size[d] = random.integer(10, 40), c.out_size[d] = random.integer(10, 40);
    c.in_spatial[d] = in_step, c.kernel_spatial[d] = kernel_step;
    in_step *= c.in_size[d], kernel_step *= c.kernel_size[d];
  }
  c.in_batch = in_step;
  return c;
}

void check_depthwise(Random &random, const Convolution &c) {
  const std::int64_t taps = window_depth(c) / c.in_features;
  Buffer<std::int8_t> in(c.batch * c.in_batch), kernel(taps * c.in_features);
  in.fill(random);
  kernel.fill(random);
  if (random.chance(20))
    for (std::int8_t &value : in) value = -128;
  if (random.chance(20))
    for (std::int8_t &value : kernel) value = -128;
  const std::int8_t padding =
      random.pick({std::int8_t{-128}, std::int8_t{127}, static_cast<std::int8_t>(random.bits())});
  Buffer<std::int32_t> out(count_outputs(c) * c.out_features);
  Buffer<char> scratch(static_cast<std::int64_t>(byte_convolution_scratch<std::int8_t, std::int32_t>(c)));
  const Division division = byte_division(c, random.integer(1, 5));
  for (std::int64_t i = division.count(); i-- > 0;)
    compute_sums<true>(c, range_of(division, count_outputs(c), c.out_features, i), padding, in.data(), kernel.data(),
                       StoredSums{out.data(), c.out_features, 1}, scratch.data());
  check_sums(c, in, kernel, padding, out);
}

}  // namespace

KERNEL_INSTANCES(byte_convolution<std::int8_t, std::int32_t>)

KERNEL_TEST(convolutions_of_bytes) {
  Random random(1);
  for (const std::int64_t rank : {1, 2, 3})
    for (int i = 0; i < 150; ++i) check_all(random, random_convolution(random, rank));
}

KERNEL_TEST(wide_convolutions_of_bytes) {
  // Lines that are longer than the tiles of AMX, and pixels that are read in place.
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    Convolution c = random_convolution(random, 2);
    const std::int64_t pixel = c.in_spatial[1];
    c.in_size[1] = random.integer(14, 60), c.out_size[1] = random.integer(10, 40);
    if (random.chance(50)) {
      c.pad_low[0] = c.pad_low[1] = 0, c.kernel_size[0] = c.kernel_size[1] = 1;
      for (int d = 0; d < 2; ++d) c.out_size[d] = divide_up(c.in_size[d], c.stride[d]);
    }
    c.in_spatial[0] = pixel * c.in_size[1], c.in_batch = c.in_spatial[0] * c.in_size[0];
    c.kernel_spatial[0] = c.kernel_spatial[1] * c.kernel_size[1];
    check_all(random, c);
  }
}

KERNEL_TEST(depthwise_convolutions_of_bytes) {
  Random random(1);
  for (int i = 0; i < 300; ++i) check_depthwise(random, random_depthwise(random));
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
