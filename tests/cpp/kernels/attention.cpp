// attention.cpp - softmax of rows, and attention with heads in any layout, against the definition in double.
#include "kernels/attention/attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "kernels/attention/mask.h"
#include "random.h"
#include "ranges.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

constexpr double kEpsilon = static_cast<double>(std::numeric_limits<float>::epsilon());
/// Of the exponential, the inverse of the sum and the last product, in units in the last place.
constexpr double kUnits = 8;

/// Softmax of doubles in place.
void soften(std::vector<double> &x) {
  double largest = -INFINITY, sum = 0;
  for (const double value : x) largest = std::isnan(value) || value > largest ? value : largest;
  for (double &value : x) sum += value = std::exp(value - largest);
  for (double &value : x) value /= sum;
}

bool is_near(double found, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(found);
  return std::fabs(found - expected) <= tolerance;
}

void check_softmax(Random &random, std::int64_t rows, std::int64_t size, float scale, bool special) {
  const std::int64_t step = softmax_step<float>(size);
  Buffer<float> x(softmax_rows<float>(rows) * step);
  const float most = random.chance(20) ? 3e8F : 9, specials[] = {NAN, INFINITY, -INFINITY, 0.0F, -200.0F};
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < size; ++k) x[i * step + k] = most * static_cast<float>(random.real());
  if (special) {
    for (int i = 0; i < 3; ++i)
      x[random.integer(0, rows - 1) * step + random.integer(0, size - 1)] = random.pick(specials);
    for (std::int64_t k = 0; k < size; ++k) x[k] = -INFINITY;
  }
  const Buffer<float> before(x);
  softmax_of_rows(x.data(), rows, size, scale);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::vector<double> expected;
    // The definition rounds the product.
    for (std::int64_t k = 0; k < size; ++k)
      expected.push_back(static_cast<double>(static_cast<float>(before[i * step + k] * scale)));
    double largest = 0;
    for (const double value : expected) largest = std::isfinite(value) ? std::fmax(largest, std::fabs(value)) : largest;
    soften(expected);
    for (std::int64_t k = 0; k < size; ++k) {
      // Their difference is rounded: where it is large, the exponential is small.
      const double p = expected[static_cast<std::size_t>(k)], units = kUnits + 110 + static_cast<double>(size) / 4;
      if (!is_near(static_cast<double>(x[i * step + k]), p, p * units * kEpsilon + 1e-38)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

/// Lays out heads in one of several ways; returns the number of elements.
std::int64_t lay_out(Random &random, const Attention &a, std::int64_t rows, std::int64_t columns, Heads &heads) {
  const std::int64_t gap = random.chance(30) ? random.integer(1, 5) : 0;
  switch (random.integer(0, 3)) {
    case 0:  // rows of all heads
      heads = {(columns * a.inner + gap) * rows, columns, columns * a.inner + gap, 1};
      break;
    case 1:  // one head after the other
      heads = {rows * columns * a.inner, rows * columns, columns, 1};
      break;
    case 2:  // rows contiguous
      heads = {rows * columns * a.inner, rows * columns, 1, rows};
      break;
    default:  // heads innermost
      heads = {1, a.outer, columns * a.outer * a.inner, a.outer * a.inner};
  }
  return (a.outer - 1) * heads.outer + (a.inner - 1) * heads.inner + (rows - 1) * heads.row +
         (columns - 1) * heads.column + 1;
}

/// One row of the definition, and for each result how far from it a sum of rounded numbers may be.
struct Row {
  std::vector<double> out, tolerance;
};

/// Masks of a query.
struct MaskRow {
  const float *added;
  const std::int32_t *kept;
};

Row expected_row(const Attention &a, const float *query, const float *key, const float *value, const MaskRow &masks) {
  std::vector<double> scores;
  std::vector<double> errors;
  double error = 0, largest = -INFINITY;
  for (std::int64_t n = 0; n < a.keys; ++n) {
    double sum = 0, magnitude = 0;
    for (std::int64_t k = 0; k < a.depth; ++k) {
      const double product =
          static_cast<double>(query[k * a.query.column]) * static_cast<double>(key[n * a.key.row + k * a.key.column]);
      sum += product;
      magnitude += std::fabs(product);
    }
    double score = a.scale * sum, units = (static_cast<double>(a.depth) + 4) * std::fabs(a.scale) * magnitude;
    if (masks.added) {
      score += static_cast<double>(masks.added[n]);
      // The sum of both is rounded.
      if (std::isfinite(score)) units += std::fabs(score);
    }
    if (masks.kept && !masks.kept[n]) {
      score = static_cast<double>(static_cast<float>(a.replacement));
      units = 0;
    }
    scores.push_back(score);
    largest = std::fmax(largest, score);
    errors.push_back(units * kEpsilon);
  }
  // Those that are far below the largest have no share, however large their errors are.
  for (std::size_t n = 0; n < scores.size(); ++n)
    if (!(scores[n] + errors[n] < largest - 200)) error = std::fmax(error, errors[n]);
  soften(scores);
  Row row;
  for (std::int64_t j = 0; j < a.features; ++j) {
    double sum = 0, magnitude = 0;
    for (std::int64_t n = 0; n < a.keys; ++n) {
      const double product =
          scores[static_cast<std::size_t>(n)] * static_cast<double>(value[n * a.value.row + j * a.value.column]);
      sum += product;
      magnitude += std::fabs(product);
    }
    row.out.push_back(sum);
    row.tolerance.push_back(
        magnitude * (std::expm1(2 * error) + (2 * static_cast<double>(a.keys) + kUnits) * kEpsilon) + 1e-37);
  }
  return row;
}

/// A mask of each kind, or of none; `step` elements from one row to the next.
template <class T>
Buffer<T> make_mask(Random &random, const Attention &a, Heads &heads) {
  const std::int64_t step = divide_up(a.keys, kLanes<float>) * kLanes<float> + random.integer(0, 3);
  const std::int64_t queries = random.chance(50) ? a.queries : 1, inner = random.chance(50) ? a.inner : 1;
  const std::int64_t outer = random.chance(50) ? a.outer : 1;
  heads = {outer > 1 ? step * queries * inner : 0, inner > 1 ? step * queries : 0, queries > 1 ? step : 0, 1};
  return Buffer<T>(step * queries * inner * outer);
}

void check_attention(Random &random, Attention &a) {
  Buffer<float> query(lay_out(random, a, a.queries, a.depth, a.query));
  Buffer<float> key(lay_out(random, a, a.keys, a.depth, a.key));
  Buffer<float> value(lay_out(random, a, a.keys, a.features, a.value));
  Buffer<float> out(lay_out(random, a, a.queries, a.features, a.out)), parts(out.size());
  for (Buffer<float> *buffer : {&query, &key, &value}) buffer->fill(random);
  if (random.chance(20)) query[random.integer(0, query.size() - 1)] = NAN;
  Buffer<float> added(make_mask<float>(random, a, a.added));
  Buffer<std::int32_t> kept(make_mask<std::int32_t>(random, a, a.kept));
  const float terms[] = {-1e9F, -INFINITY, 1.5F}, replacements[] = {-2.4e38F, -INFINITY, -1.0F};
  const float term = random.pick(terms);
  const int often = random.chance(20) ? 100 : 40;
  for (std::int64_t i = 0; i < added.size(); ++i) added[i] = random.chance(often) ? term : 0;
  for (std::int64_t i = 0; i < kept.size(); ++i) kept[i] = random.chance(often) ? 0 : -1;
  a.replacement = static_cast<double>(random.pick(replacements));
  const Masks<float> masks{random.chance(50) ? added.data() : nullptr, random.chance(50) ? kept.data() : nullptr};
  Buffer<char> scratch(static_cast<std::int64_t>(attention_scratch<float>(a)));
  attention(a, query.data(), key.data(), value.data(), out.data(), scratch.data(), masks);
  std::int64_t wrong = 0;
  for (std::int64_t h = 0; h < a.outer * a.inner; ++h)
    for (std::int64_t m = 0; m < a.queries; ++m) {
      const Row row = expected_row(a, query.data() + head_offset(a, a.query, h) + m * a.query.row,
                                   key.data() + head_offset(a, a.key, h), value.data() + head_offset(a, a.value, h),
                                   {masks.added ? masks.added + head_offset(a, a.added, h) + m * a.added.row : nullptr,
                                    masks.kept ? masks.kept + head_offset(a, a.kept, h) + m * a.kept.row : nullptr});
      for (std::int64_t j = 0; j < a.features; ++j) {
        const float found = out[head_offset(a, a.out, h) + m * a.out.row + j * a.out.column];
        const std::size_t at = static_cast<std::size_t>(j);
        if (!is_near(static_cast<double>(found), row.out[at], row.tolerance[at])) ++wrong;
      }
    }
  if (wrong != 0)
    std::printf("attention %lld x %lld heads, %lld queries, %lld keys, %lld and %lld columns: %lld wrong\n",
                static_cast<long long>(a.outer), static_cast<long long>(a.inner), static_cast<long long>(a.queries),
                static_cast<long long>(a.keys), static_cast<long long>(a.depth), static_cast<long long>(a.features),
                static_cast<long long>(wrong));
  CHECK(wrong == 0);
  const OneThread thread(random, [&a](std::int64_t most) { return attention_part_scratch<float>(a, most); });
  attention_in_parts(thread.shared(), a, query.data(), key.data(), value.data(), parts.data(), scratch.data(), masks);
  check_same_bits(out, parts);
}

/// As generated code is: whether a token is not 0, and its key not behind the query.
struct Visible {
  using Result = std::int32_t;
  static constexpr Result kNothing = -1;
  static Result at(const void *const *in, const Place &p) {
    const std::int32_t v0 = static_cast<const std::int32_t *>(in[0])[place_of({1, 7, 0, 0, 2}, p)];
    const std::int32_t v1 = static_cast<std::int32_t>(place_of({0, 0, 0, 1, 0}, p));
    const std::int32_t v2 = static_cast<std::int32_t>(place_of({0, 0, 0, 0, 1}, p));
    return v0 != 0 && subtract_wrapped(v1, v2) >= 0 ? -1 : 0;
  }
};

void check_mask(Random &random) {
  const MaskShape s{2, 1, random.integer(1, 5), random.integer(1, 4), 16};
  Buffer<std::int32_t> tokens(15), out(s.outer * s.queries * s.step);
  for (std::int32_t &token : tokens) token = static_cast<std::int32_t>(random.integer(0, 1));
  const void *const in[] = {tokens.data()};
  compute_mask<Visible>(s, in, out.data());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < s.outer; ++i)
    for (std::int64_t m = 0; m < s.queries; ++m)
      for (std::int64_t n = 0; n < s.step; ++n) {
        const bool kept = n >= s.keys || (tokens[1 + i * 7 + n * 2] != 0 && n <= m);
        if (out[(i * s.queries + m) * s.step + n] != (kept ? -1 : 0)) ++wrong;
      }
  CHECK(wrong == 0);
  CHECK(add_wrapped(std::int32_t{2147483647}, std::int32_t{1}) == -2147483647 - 1);
  CHECK(multiply_wrapped(std::int32_t{65536}, std::int32_t{65537}) == 65536);
  CHECK(negated(std::int64_t{5}) == -5);
  CHECK(add_wrapped(0.5F, 1.0F) == 1.5F);
}

}  // namespace

KERNEL_INSTANCES(attention<float>, attention_scratch<float>)

KERNEL_TEST(attention) {
  Random random(80);
  for (int i = 0; i < 20; ++i) check_mask(random);
  for (int i = 0; i < 400; ++i) {
    const float scale = random.chance(50) ? 1 : random.chance(50) ? 0.125F : -2.5F;
    check_softmax(random, random.integer(1, 9), random.integer(1, 90), scale, random.chance(30));
  }
  for (int i = 0; i < 300; ++i) {
    Attention a{random.integer(1, 3),
                random.integer(1, 4),
                random.integer(1, 40),
                random.chance(10) ? random.integer(500, 700) : random.integer(1, 70),
                random.integer(1, 50),
                random.integer(1, 50),
                random.chance(20) ? -1 : 0.25,
                {},
                {},
                {},
                {}};
    check_attention(random, a);
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
