// bf16_dot.cpp - products with bfloat16 weights: bit for bit those with the same weights as floats.
#include "kernels/gemm/bf16_dot.h"

#include <initializer_list>

#include "check.h"
#include "epilogues.h"
#include "random.h"
#include "ranges.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// Weights as floats, by rows, and as modelwheel packs them.
struct Weights {
  Buffer<float> plain;
  Buffer<BF16> panels;
};

Weights draw_weights(Random &random, std::int64_t k, std::int64_t n) {
  const std::int64_t panel = bf16_panel(k);
  Weights weights{Buffer<float>(k * n), Buffer<BF16>(divide_up(n, kPanel) * panel)};
  std::memset(weights.panels.data(), 0, static_cast<std::size_t>(weights.panels.size()) * sizeof(BF16));
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      BF16 value;
      random.draw(value);
      weights.plain[i * n + j] = to_float(value);
      weights.panels[j / kPanel * panel + (i / kPair * kPanel + j % kPanel) * kPair + i % kPair] = value;
    }
  return weights;
}

/// The sums of plain loops in the order of the kernels, which add each product to the sum at once.
void check_sums(const Dot &d, const Buffer<float> &lhs, const Weights &weights, const Buffer<float> &out) {
  Dot plain = d;
  plain.panel = 0;
  plain.rhs_k = d.n;
  Buffer<float> expected(out.size());
  Buffer<char> scratch(static_cast<std::int64_t>(dot_scratch<float>(plain)));
  dot<float, float>(plain, lhs.data(), weights.plain.data(), expected.data(), scratch.data());
  check_same_bits(expected, out);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < d.m; ++i)
    for (std::int64_t j = 0; j < d.n; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < d.k; ++k) {
        const double product =
            static_cast<double>(lhs[i * d.lhs_m + k * d.lhs_k]) * static_cast<double>(weights.plain[k * d.n + j]);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double error = std::fabs(static_cast<double>(out[i * d.out_m + j]) - sum);
      if (!(error <= 1e-7 * static_cast<double>(d.k + 1) * magnitude)) ++wrong;
    }
  CHECK(wrong == 0);
}

/// Threads that share a product, and fewer rows in the memory for all, compute the same bits.
void check_parts(Random &random, const Dot &d, const Buffer<float> &lhs, const Weights &weights,
                 const Buffer<float> &out) {
  Buffer<float> parts(out.size());
  Buffer<char> scratch(static_cast<std::int64_t>(bf16_dot_scratch<float>(d)));
  const OneThread thread(random, [&d](std::int64_t most) { return bf16_dot_part_scratch<float>(d, most); });
  bf16_dot_in_parts<float>(thread.shared(), d, lhs.data(), weights.panels.data(), parts.data(), scratch.data());
  check_same_bits(out, parts);
  Dot first = d;
  first.m = random.integer(1, d.m);
  CHECK(bf16_dot_scratch<float>(first) <= bf16_dot_scratch<float>(d));
  for (std::int64_t i = 0; i < first.m; ++i)
    for (std::int64_t j = 0; j < d.n; ++j) parts[i * d.out_m + j] = 0;
  bf16_dot<float>(first, lhs.data(), weights.panels.data(), parts.data(), scratch.data());
  check_same_bits(out, parts);
}

/// The product with epilogues, whole and in parts; `plain` has its sums, rows without gaps.
void check_all_epilogues(Random &random, const Dot &d, const Buffer<float> &lhs, const Weights &weights,
                         const Buffer<float> &plain) {
  Buffer<char> scratch(static_cast<std::int64_t>(bf16_dot_scratch<float>(d)));
  const auto run = [&](float *sums, const Epilogue<float> &epilogue, std::int64_t step, const auto &product) {
    Dot apart = d;
    apart.out_m = step;
    Epilogue<float> own = epilogue;
    // As the generated code has it where no sums are stored.
    if (in_place(own) && !own.overlaps && bf16_dot_sums<float>(apart) == 0) own.sums = own.result;
    product(apart, own.sums == epilogue.sums ? sums : own.result, own);
  };
  check_epilogues(
      random, plain, d.n,
      [&](float *sums, const Epilogue<float> &epilogue, std::int64_t step) {
        run(sums, epilogue, step, [&](const Dot &apart, float *out, const Epilogue<float> &own) {
          bf16_dot<float>(apart, lhs.data(), weights.panels.data(), out, scratch.data(), &own);
        });
      },
      [&](float *sums, const Epilogue<float> &epilogue, std::int64_t step) {
        run(sums, epilogue, step, [&](const Dot &apart, float *out, const Epilogue<float> &own) {
          const OneThread thread(random,
                                 [&apart](std::int64_t most) { return bf16_dot_part_scratch<float>(apart, most); });
          bf16_dot_in_parts<float>(thread.shared(), apart, lhs.data(), weights.panels.data(), out, scratch.data(),
                                   &own);
        });
      });
}

void test_product(Random &random, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t gap = random.chance(30) ? random.integer(1, 5) : 0, spread = random.chance(20) ? 2 : 1;
  const std::int64_t out_gap = random.chance(30) ? random.integer(1, 5) : 0;
  const Dot d{1, m, n, k, 0, k * spread + gap, spread, 0, kPanel, 1, 0, n + out_gap, 1, bf16_panel(k)};
  Buffer<float> lhs(m * d.lhs_m), out((m - 1) * d.out_m + n);
  lhs.fill(random);
  const Weights weights = draw_weights(random, k, n);
  Buffer<char> scratch(static_cast<std::int64_t>(bf16_dot_scratch<float>(d)));
  bf16_dot<float>(d, lhs.data(), weights.panels.data(), out.data(), scratch.data());
  check_sums(d, lhs, weights, out);
  check_parts(random, d, lhs, weights, out);
  if (out_gap == 0) check_all_epilogues(random, d, lhs, weights, out);
}

}  // namespace

KERNEL_INSTANCES(bf16_dot<float>, bf16_dot_scratch<float>)

KERNEL_TEST(products_with_bfloat16) {
  Random random(1);
  // Rows of all tiles and of several, strips of all widths, a last panel that is not full, a last pair that is not.
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 50})
    for (const std::int64_t n : {48, 63, 64, 112, 130, 208, 333}) test_product(random, m, n, random.integer(1, 90));
  // One block of the inner dimension and several.
  for (const std::int64_t k : {1, 2, 3, 511, 512, 513, 1025, 2000})
    for (const std::int64_t m : {1, 8, 9, 33}) test_product(random, m, 80, k);
  test_product(random, 300, 64, 600);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
