// sort.cpp - sorting and the k largest, against the standard library.
#include "kernels/sorting/sort.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "kernels/sorting/top_k.h"
#include "random.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

template <class T>
T operand(const void **params, int index) {
  T value;
  std::memcpy(&value, params[index], sizeof value);
  return value;
}

void float_ascending(bool *result, const void *, const void **params, const void *, const void *, const void *) {
  *result = operand<float>(params, 0) < operand<float>(params, 1);
}

/// A total order: NaN after everything, as XLA's comparators for tf.sort make it.
void float_total(bool *result, const void *, const void **params, const void *, const void *, const void *) {
  *result = total_order(operand<float>(params, 0)) < total_order(operand<float>(params, 1));
}

void byte_descending(bool *result, const void *, const void **params, const void *, const void *, const void *) {
  *result = operand<std::int8_t>(params, 0) > operand<std::int8_t>(params, 1);
}

/// By the second operand, then the first.
void by_second(bool *result, const void *, const void **params, const void *, const void *, const void *) {
  const std::int16_t a = operand<std::int16_t>(params, 2), b = operand<std::int16_t>(params, 3);
  *result = a != b ? a < b : operand<double>(params, 0) < operand<double>(params, 1);
}

std::vector<float> some_floats(Random &random, std::int64_t size) {
  const float specials[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0F, -0.0F, 1e-45F, 3.0F};
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float &value : values)
    value = random.chance(30) ? random.pick(specials) : static_cast<float>(random.integer(-9, 9));
  return values;
}

bool same_bits(float a, float b) { return bits_as<std::uint32_t>(a) == bits_as<std::uint32_t>(b); }

/// One key and its index, along the middle of three axes.
void test_key_and_index(Random &random, std::int64_t outer, std::int64_t size, std::int64_t inner) {
  const std::int64_t total = outer * size * inner;
  const std::vector<float> keys = some_floats(random, total);
  Buffer<float> sorted(total);
  Buffer<std::int32_t> order(total);
  for (std::int64_t i = 0; i < total; ++i) {
    sorted[i] = keys[static_cast<std::size_t>(i)];
    order[i] = static_cast<std::int32_t>(i / inner % std::max<std::int64_t>(size, 1));
  }
  const Sort s{outer, size, inner, 2, {4, 4}};
  Buffer<char> scratch(static_cast<std::int64_t>(sort_scratch(s)));
  sort(s, float_total, {reinterpret_cast<char *>(sorted.data()), reinterpret_cast<char *>(order.data())},
       scratch.data());
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      std::vector<std::int32_t> expected(static_cast<std::size_t>(size));
      for (std::size_t j = 0; j < expected.size(); ++j) expected[j] = static_cast<std::int32_t>(j);
      const auto at = [&](std::int64_t j) { return (o * size + j) * inner + i; };
      const auto key = [&](std::int32_t j) { return keys[static_cast<std::size_t>(at(j))]; };
      std::stable_sort(expected.begin(), expected.end(),
                       [&](std::int32_t a, std::int32_t b) { return total_order(key(a)) < total_order(key(b)); });
      for (std::int64_t j = 0; j < size; ++j) {
        const std::int32_t source = expected[static_cast<std::size_t>(j)];
        CHECK(order[at(j)] == source);
        CHECK(same_bits(sorted[at(j)], key(source)));
      }
    }
}

/// With NaN, `<` orders nothing: the result must still hold every element once.
void test_inconsistent_comparator(Random &random) {
  const std::vector<float> keys = some_floats(random, 300);
  Buffer<float> sorted(300);
  std::copy(keys.begin(), keys.end(), sorted.data());
  const Sort s{1, 300, 1, 1, {4}};
  Buffer<char> scratch(static_cast<std::int64_t>(sort_scratch(s)));
  sort(s, float_ascending, {reinterpret_cast<char *>(sorted.data())}, scratch.data());
  std::vector<std::uint32_t> before, after;
  for (std::int64_t i = 0; i < 300; ++i) {
    before.push_back(bits_as<std::uint32_t>(keys[static_cast<std::size_t>(i)]));
    after.push_back(bits_as<std::uint32_t>(sorted[i]));
  }
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  CHECK(before == after);
}

/// All sizes of elements at once, sorted by two of them.
void test_many_operands(Random &random, std::int64_t size) {
  Buffer<double> first(size);
  Buffer<std::int16_t> second(size);
  Buffer<std::int8_t> third(size);
  Buffer<Complex128> fourth(size);
  for (std::int64_t i = 0; i < size; ++i) {
    first[i] = static_cast<double>(i * 7919 % 1009);
    second[i] = static_cast<std::int16_t>(random.integer(-3, 3));
    third[i] = static_cast<std::int8_t>(second[i]);
    fourth[i] = {first[i], static_cast<double>(second[i])};
  }
  const Sort s{1, size, 1, 4, {8, 2, 1, 16}};
  Buffer<char> scratch(static_cast<std::int64_t>(sort_scratch(s)));
  sort(s, by_second,
       {reinterpret_cast<char *>(first.data()), reinterpret_cast<char *>(second.data()),
        reinterpret_cast<char *>(third.data()), reinterpret_cast<char *>(fourth.data())},
       scratch.data());
  for (std::int64_t i = 0; i < size; ++i) {
    CHECK(i == 0 || second[i - 1] < second[i] || (second[i - 1] == second[i] && first[i - 1] < first[i]));
    CHECK(third[i] == second[i]);
    CHECK_NEAR(fourth[i].re, first[i], 0);
    CHECK_NEAR(fourth[i].im, second[i], 0);
  }
}

void test_bytes() {
  Buffer<std::int8_t> bytes(256);
  for (std::int64_t i = 0; i < 256; ++i) bytes[i] = static_cast<std::int8_t>(i * 77 % 256);
  const Sort s{1, 256, 1, 1, {1}};
  Buffer<char> scratch(static_cast<std::int64_t>(sort_scratch(s)));
  sort(s, byte_descending, {reinterpret_cast<char *>(bytes.data())}, scratch.data());
  for (std::int64_t i = 0; i < 256; ++i) CHECK(bytes[i] == 127 - i);
}

void check_top_k(const TopK &t, const Buffer<float> &in) {
  Buffer<float> values(t.batch * t.k);
  Buffer<std::int32_t> indices(t.batch * t.k);
  Buffer<char> scratch(static_cast<std::int64_t>(top_k_scratch(t)));
  top_k(t, in.data(), values.data(), indices.data(), scratch.data());
  for (std::int64_t row = 0; row < t.batch; ++row) {
    const float *values_in = in.data() + row * t.size;
    std::vector<std::int32_t> expected(static_cast<std::size_t>(t.size));
    for (std::size_t j = 0; j < expected.size(); ++j) expected[j] = static_cast<std::int32_t>(j);
    std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t a, std::int32_t b) {
      return total_order(values_in[a]) > total_order(values_in[b]);
    });
    for (std::int64_t j = 0; j < t.k; ++j) {
      const std::int32_t index = expected[static_cast<std::size_t>(j)];
      CHECK(indices[row * t.k + j] == index);
      CHECK(std::memcmp(&values[row * t.k + j], &values_in[index], sizeof(float)) == 0);
    }
  }
}

}  // namespace

KERNEL_INSTANCES(sort<2>, sort_scratch)

KERNEL_TEST(sort) {
  Random random(20);
  for (const std::int64_t size : {0, 1, 2, 3, 7, 8, 9, 64, 100, 1000}) test_key_and_index(random, 1, size, 1);
  test_key_and_index(random, 3, 17, 1);
  test_key_and_index(random, 1, 33, 5);
  test_key_and_index(random, 4, 12, 3);
  test_inconsistent_comparator(random);
  for (const std::int64_t size : {1, 2, 50, 333}) test_many_operands(random, size);
  test_bytes();
}

KERNEL_INSTANCES(top_k<float>, top_k_scratch)

KERNEL_TEST(top_k) {
  Random random(21);
  for (const std::int64_t size : {1, 2, 5, 33, 500})
    for (const std::int64_t k : {std::int64_t{1}, std::int64_t{2}, std::int64_t{10}, size}) {
      if (k > size) continue;
      const TopK t{3, size, k};
      const std::vector<float> values = some_floats(random, 3 * size);
      Buffer<float> floats(3 * size);
      std::copy(values.begin(), values.end(), floats.data());
      check_top_k(t, floats);
    }
  // The order of the extremes: NaN is largest, its negative smallest, +0 above -0.
  Buffer<float> extremes(8);
  const float values[] = {-0.0F, -INFINITY, NAN, 1, 0.0F, -NAN, INFINITY, -1};
  std::copy(std::begin(values), std::end(values), extremes.data());
  Buffer<float> sorted(8);
  Buffer<std::int32_t> indices(8);
  const TopK all{1, 8, 8};
  Buffer<char> scratch(static_cast<std::int64_t>(top_k_scratch(all)));
  top_k(all, extremes.data(), sorted.data(), indices.data(), scratch.data());
  const std::int32_t expected[] = {2, 6, 3, 4, 0, 7, 1, 5};
  for (std::int64_t i = 0; i < 8; ++i) CHECK(indices[i] == expected[i]);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
