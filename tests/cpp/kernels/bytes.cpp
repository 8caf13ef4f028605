// bytes.cpp - products of 8-bit integers with packed weights: each sum is that of a plain loop, with all instructions.
#include "kernels/gemm/parts.h"

#include <cstdio>
#include <initializer_list>

#include "check.h"
#include "panels.h"
#include "random.h"
#include "ranges.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

std::int64_t count_wrong(const ByteProduct &p, const Buffer<std::int8_t> &lhs, const Buffer<std::int8_t> &weights,
                         const Buffer<std::int32_t> &out) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < p.k; ++k) sum += lhs[i * p.lhs_m + k * p.lhs_k] * weights[k * p.n + j];
      if (sum != out[i * p.out_m + j * p.out_n]) ++wrong;
    }
  return wrong;
}

template <class Multiply>
void check_product(const ByteProduct &p, const Buffer<std::int8_t> &lhs, const Buffer<std::int8_t> &weights,
                   const Multiply &multiply) {
  const Buffer<std::int8_t> panels = packed(weights, p.k, p.n);
  Buffer<std::int32_t> out((p.m - 1) * p.out_m + (p.n - 1) * p.out_n + 1);
  Buffer<char> scratch(static_cast<std::int64_t>(byte_scratch(p.m, p.k)));
  multiply(p, lhs.data(), panels.data(), out.data(), scratch.data());
  CHECK(count_wrong(p, lhs, weights, out) == 0);
}

Dot dot_of(const ByteProduct &p) {
  return {1, p.m, p.n, p.k, 0, p.lhs_m, p.lhs_k, 0, kPanel, 1, 0, p.out_m, p.out_n, byte_panel(p.k)};
}

/// The instructions of the level, those beside it that this CPU has, and what `dot` takes.
void check_all(const ByteProduct &p, const Buffer<std::int8_t> &lhs, const Buffer<std::int8_t> &weights) {
  check_product(p, lhs, weights, multiply_bytes_by<Bytes>);
#if defined(__AVX512BW__)
  if (has_vnni()) check_product(p, lhs, weights, multiply_bytes_by<BytesVnni>);
  if (has_amx_int8()) check_product(p, lhs, weights, multiply_bytes_by<BytesAmx>);
#endif
  check_product(
      p, lhs, weights,
      [](const ByteProduct &q, const std::int8_t *left, const std::int8_t *panels, std::int32_t *out, void *scratch) {
        const Dot d = dot_of(q);
        CHECK((dot_scratch<std::int8_t, std::int32_t>(d)) == byte_scratch(q.m, q.k));
        dot<std::int8_t, std::int32_t>(d, left, panels, out, scratch);
      });
}

/// Threads that share a product compute the same sums.
void check_parts(Random &random, const ByteProduct &p, const Buffer<std::int8_t> &lhs,
                 const Buffer<std::int8_t> &weights) {
  check_product(p, lhs, weights,
                [&random](const ByteProduct &q, const std::int8_t *left, const std::int8_t *panels, std::int32_t *out,
                          void *scratch) {
                  const Dot d = dot_of(q);
                  const OneThread thread(
                      random, [&d](std::int64_t most) { return dot_part_scratch<std::int8_t, std::int32_t>(d, most); });
                  dot_in_parts<std::int8_t, std::int32_t>(thread.shared(), d, left, panels, out, scratch);
                });
}

void test_random(Random &random, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t gap = random.chance(30) ? random.integer(1, 5) : 0, spread = random.chance(20) ? 2 : 1;
  ByteProduct p{m, n, k, k * spread + gap, spread, n + gap, 1};
  if (random.chance(20)) p.out_m = 1, p.out_n = m;
  Buffer<std::int8_t> lhs(m * p.lhs_m), weights(k * n);
  lhs.fill(random);
  weights.fill(random);
  check_all(p, lhs, weights);
  if (n > 1) check_parts(random, p, lhs, weights);
}

}  // namespace

KERNEL_INSTANCES(dot<std::int8_t, std::int32_t>)

KERNEL_TEST(products_of_bytes) {
  Random random(1);
  // Rows of all tiles, panels together and alone, a last panel that is not full, a last four that is not.
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 13, 50})
    for (const std::int64_t n : {1, 15, 16, 17, 47, 48, 64, 70, 130}) test_random(random, m, n, random.integer(1, 70));
  for (const std::int64_t k : {1, 2, 3, 4, 5, 511, 512, 2000}) test_random(random, 40, 33, k);
  test_random(random, 900, 20, 30);
}

KERNEL_TEST(products_of_all_bytes) {
  // Each pair of 8-bit integers, and sums of the largest products: none saturates.
  constexpr std::int64_t kAll = 256;
  Buffer<std::int8_t> column(kAll), row(kAll);
  for (std::int64_t i = 0; i < kAll; ++i) column[i] = row[i] = static_cast<std::int8_t>(i - 128);
  check_all({kAll, kAll, 1, 1, 1, kAll, 1}, column, row);
  for (const std::int64_t k : {2, 3, 4, 8, 1000})
    for (const int left : {-128, -127, 0, 127})
      for (const int right : {-128, -127, 0, 127}) {
        Buffer<std::int8_t> lhs(7 * k), weights(k * 20);
        for (std::int8_t &value : lhs) value = static_cast<std::int8_t>(left);
        for (std::int8_t &value : weights) value = static_cast<std::int8_t>(right);
        check_all({7, 20, k, k, 1, 20, 1}, lhs, weights);
      }
}

#if defined(__AVX512BW__)
KERNEL_TEST(products_of_bytes_in_tiles) {
  if (!has_amx_int8()) return void(std::printf("products_of_bytes_in_tiles: skipped, as this CPU has no AMX\n"));
  Random random(1);
  // Tiles that are full and not, alone and in pairs, with panels likewise.
  for (const std::int64_t m : {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 64, 65, 127, 128, 129, 200, 300})
    for (const std::int64_t n : {1, 16, 17, 32, 40, 48, 64, 65, 112}) test_random(random, m, n, random.integer(1, 200));
  for (std::int64_t k = 1; k <= 200; ++k) test_random(random, random.integer(16, 40), random.integer(1, 40), k);
  for (const std::int64_t k : {255, 256, 1000, 1024, 3000, 4608}) test_random(random, 40, 70, k);
  // The largest sums, of both signs.
  for (const std::int64_t k : {64, 100, 4096})
    for (const int left : {-128, 127})
      for (const int right : {-128, 127}) {
        Buffer<std::int8_t> lhs(33 * k), weights(k * 20);
        for (std::int8_t &value : lhs) value = static_cast<std::int8_t>(left);
        for (std::int8_t &value : weights) value = static_cast<std::int8_t>(right);
        check_all({33, 20, k, k, 1, 20, 1}, lhs, weights);
      }
}
#endif

}  // namespace modelwheel::MODELWHEEL_LEVEL
