// byte_layer.cpp - layers of 8-bit integers: code follows the right sums, with any number of threads.
#include "kernels/bytes/byte_layer.h"

#include <initializer_list>

#include "check.h"
#include "panels.h"
#include "random.h"
#include "ranges.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// Sums times a factor of each column, plus another value of each place.
template <int Columns>
struct ScaledSums {
  static constexpr int kReads = 2, kColumns = Columns;

  template <int Lanes, int Count>
  MODELWHEEL_INLINE static void at(const char *const *in, char *out, std::int64_t j) {
    const auto sums = reinterpret_cast<const std::int32_t *>(in[0]);
    const auto factors = reinterpret_cast<const float *>(in[1]), more = reinterpret_cast<const float *>(in[2]);
    for (std::int64_t k = j; k < j + Lanes * Count; k += Lanes)
      store<float, Lanes>(
          reinterpret_cast<float *>(out) + k,
          converted<float, Lanes>(load<std::int32_t, Lanes>(sums + k)) * load<float, Lanes>(factors + k) +
              load<float, Lanes>(more + k));
  }
};

/// A layer by one thread and by several, whose weights [depth, Columns] are in panels.
template <int Columns, bool Depthwise = false, class Shape>
void check_layer(Random &random, const Shape &shape, const Buffer<std::int8_t> &in, const Buffer<std::int8_t> &weights,
                 const Buffer<std::int32_t> &sums) {
  using Code = ScaledSums<Columns>;
  const std::int64_t rows = rows_of(shape), step = Columns + random.integer(0, 3);
  Buffer<float> factors(Columns), more(rows * Columns), out(rows * step), parts(rows * step);
  // Small whole numbers, so that fused or not is equal.
  for (float &value : factors) value = static_cast<float>(random.integer(-3, 3));
  for (float &value : more) value = static_cast<float>(random.integer(-100, 100));
  for (std::int64_t i = 0; i < out.size(); ++i) out[i] = parts[i] = 0.5F;
  const Plane<const char> reads[] = {{reinterpret_cast<const char *>(factors.data()), 0},
                                     {reinterpret_cast<const char *>(more.data()), Columns * 4}};
  Buffer<char> scratch(static_cast<std::int64_t>(byte_layer_scratch(shape)));
  byte_layer<Code, Depthwise>(shape, 7, in.data(), weights.data(), reads,
                              Plane<char>{reinterpret_cast<char *>(out.data()), step * 4}, scratch.data());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < Columns; ++j)
      if (out[i * step + j] != static_cast<float>(sums[i * Columns + j]) * factors[j] + more[i * Columns + j]) ++wrong;
  CHECK(wrong == 0);
  const OneThread thread(random, [&shape](std::int64_t) { return byte_layer_scratch(shape); });
  byte_layer_in_parts<Code, Depthwise>(thread.shared(), shape, 7, in.data(), weights.data(), reads,
                                       Plane<char>{reinterpret_cast<char *>(parts.data()), step * 4}, scratch.data());
  check_same_bits(out, parts);
}

template <int Columns>
void check_product(Random &random, std::int64_t m, std::int64_t k) {
  const Dot d{1, m, Columns, k, 0, k, 1, 0, kPanel, 1, 0, Columns, 1, byte_panel(k)};
  Buffer<std::int8_t> in(m * k), weights(k * Columns);
  in.fill(random);
  weights.fill(random);
  const Buffer<std::int8_t> panels = packed(weights, k, Columns);
  Buffer<std::int32_t> sums(m * Columns);
  Buffer<char> scratch(static_cast<std::int64_t>(byte_scratch(m, k)));
  multiply_bytes({m, Columns, k, k, 1, Columns, 1}, in.data(), panels.data(), sums.data(), scratch.data());
  check_layer<Columns>(random, d, in, panels, sums);
}

template <int Columns>
void check_convolution(Random &random) {
  Convolution c{};
  c.batch = random.integer(1, 3), c.groups = 1, c.rank = 2;
  c.in_features = random.integer(1, 20), c.out_features = Columns;
  std::int64_t in_step = c.in_features, kernel_step = c.in_features * Columns, out_step = Columns;
  for (int d = 1; d >= 0; --d) {
    c.kernel_size[d] = random.integer(1, 3), c.stride[d] = random.integer(1, 2);
    c.kernel_dilation[d] = c.base_dilation[d] = 1, c.pad_low[d] = random.integer(0, 1);
    c.in_size[d] = random.integer(1, 9), c.out_size[d] = random.integer(1, 9);
    c.in_spatial[d] = in_step, c.kernel_spatial[d] = kernel_step, c.out_spatial[d] = out_step;
    in_step *= c.in_size[d], kernel_step *= c.kernel_size[d], out_step *= c.out_size[d];
  }
  c.in_batch = in_step, c.out_batch = out_step, c.in_feature = c.kernel_out = c.out_feature = 1, c.kernel_in = Columns;
  const std::int64_t depth = window_depth(c);
  c.panel = byte_panel(packed_depth(c));
  Buffer<std::int8_t> in(c.batch * c.in_batch), kernel(depth * Columns);
  in.fill(random);
  kernel.fill(random);
  const Buffer<std::int8_t> panels = packed(kernel, depth, Columns, run_elements(c));
  Buffer<std::int32_t> sums(count_outputs(c) * Columns);
  Buffer<char> scratch(static_cast<std::int64_t>(byte_convolution_scratch<std::int8_t, std::int32_t>(c)));
  byte_convolution<std::int8_t, std::int32_t>(c, 7, in.data(), panels.data(), sums.data(), scratch.data());
  check_layer<Columns>(random, c, in, panels, sums);
}

/// A filter for each feature; lines are so long that there are several blocks of many features.
template <int Columns>
void check_depthwise(Random &random) {
  Convolution c{};
  c.batch = random.integer(1, 2), c.groups = c.in_features = c.out_features = Columns, c.rank = 2;
  std::int64_t in_step = Columns, kernel_step = Columns, out_step = Columns;
  for (int d = 1; d >= 0; --d) {
    c.kernel_size[d] = random.pick({1, 3, 5}), c.stride[d] = random.integer(1, 2);
    c.kernel_dilation[d] = c.base_dilation[d] = 1, c.pad_low[d] = random.integer(0, 2);
    c.in_size[d] = random.integer(1, d == 1 ? 60 : 15), c.out_size[d] = random.integer(1, d == 1 ? 60 : 15);
    c.in_spatial[d] = in_step, c.kernel_spatial[d] = kernel_step, c.out_spatial[d] = out_step;
    in_step *= c.in_size[d], kernel_step *= c.kernel_size[d], out_step *= c.out_size[d];
  }
  c.in_batch = in_step, c.out_batch = out_step, c.in_feature = c.kernel_out = c.out_feature = 1, c.kernel_in = Columns;
  Buffer<std::int8_t> in(c.batch * c.in_batch), kernel(kernel_step);
  in.fill(random);
  kernel.fill(random);
  Buffer<std::int32_t> sums(count_outputs(c) * Columns);
  Buffer<char> scratch(static_cast<std::int64_t>(byte_convolution_scratch<std::int8_t, std::int32_t>(c)));
  const StoredSums stored{sums.data(), Columns, 1};
  compute_sums<true>(c, byte_range(c), 7, in.data(), kernel.data(), stored, scratch.data());
  check_layer<Columns, true>(random, c, in, kernel, sums);
}

template <int Columns>
void test_columns(Random &random) {
  for (const std::int64_t m : {1, 2, 7, 33, 70, 400}) check_product<Columns>(random, m, random.integer(1, 100));
  for (int i = 0; i < 20; ++i) check_convolution<Columns>(random);
  if constexpr (Columns > 1)
    for (int i = 0; i < 20; ++i) check_depthwise<Columns>(random);
}

}  // namespace

KERNEL_TEST(layers_of_bytes) {
  Random random(1);
  test_columns<1>(random);
  test_columns<20>(random);
  test_columns<96>(random);
  test_columns<103>(random);
  test_columns<144>(random);
  test_columns<256>(random);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
