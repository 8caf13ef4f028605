// pooling.cpp - the largest element and the sum of each window, bit by bit against the definition.
#include "kernels/pooling/parts.h"

#include "check.h"
#include "poolings.h"
#include "random.h"
#include "ranges.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// One element of the result: taps by rows.
template <class T>
T expected(const Pooling &p, const Buffer<T> &in, std::int64_t image, const std::int64_t (&at)[2], std::int64_t f) {
  T total = static_cast<T>(p.initial);
  for (std::int64_t y = 0; y < p.window[0]; ++y)
    for (std::int64_t x = 0; x < p.window[1]; ++x) {
      const std::int64_t row = at[0] * p.stride[0] + y - p.pad_low[0], column = at[1] * p.stride[1] + x - p.pad_low[1];
      const bool inside = row >= 0 && row < p.in_size[0] && column >= 0 && column < p.in_size[1];
      if (!inside && !p.is_padded) continue;
      const std::int64_t pixel = (image * p.in_size[0] + row) * p.in_size[1] + column;
      const T element = inside ? in[pixel * p.in_step + f] : static_cast<T>(p.padding);
      const T value = static_cast<T>(element * static_cast<T>(p.in_factor));
      total = p.reducer == Reducer::kSum ? static_cast<T>(total + value) : value > total ? value : total;
    }
  return static_cast<T>(total * static_cast<T>(p.factor));
}

/// Parts of the result, and ranges of images or of an image's rows, have its bits.
template <class T>
void check_ranges(Random &random, const Pooling &p, const Buffer<T> &in, const Buffer<T> &out) {
  Buffer<T> parts(out.size());
  const bool single = p.batch * p.out_size[0] * p.out_size[1] == 1;
  in_ranges(
      random,
      single         ? p.features
      : p.batch == 1 ? p.out_size[0]
                     : p.batch,
      [&](Range r) {
        const Ranged<Pooling> part = single ? column_range(p, r) : p.batch == 1 ? row_range(p, r) : batch_range(p, r);
        pooling(part.shape, in.data() + part.left, parts.data() + part.out);
        return true;
      });
  check_same_bits(out, parts);
  Buffer<T> shared(out.size());
  const OneThread thread(random, [](std::int64_t) { return std::size_t{0}; });
  pooling_in_parts(thread.shared(), p, in.data(), shared.data());
  check_same_bits(out, shared);
}

template <class T>
void check(Random &random, const Pooling &p) {
  Buffer<T> in(p.batch * p.in_size[0] * p.in_size[1] * p.in_step);
  Buffer<T> out(p.batch * p.out_size[0] * p.out_size[1] * p.features);
  in.fill(random);
  const T specials[] = {static_cast<T>(NAN), static_cast<T>(INFINITY), static_cast<T>(-0.0), T{0}};
  for (int i = 0; i < 5; ++i) in[random.integer(0, in.size() - 1)] = random.pick(specials);
  pooling(p, in.data(), out.data());
  std::int64_t wrong = 0, next = 0;
  for (std::int64_t image = 0; image < p.batch; ++image)
    for (std::int64_t y = 0; y < p.out_size[0]; ++y)
      for (std::int64_t x = 0; x < p.out_size[1]; ++x)
        for (std::int64_t f = 0; f < p.features; ++f, ++next) {
          const T value = expected(p, in, image, {y, x}, f);
          if (!is_same(value, out[next])) ++wrong;
        }
  CHECK(wrong == 0);
  check_ranges(random, p, in, out);
}

/// A volume is the pooling of its planes one after the other: of all taps of a window, those of the first plane come
/// first.
template <class T>
T expected_of_volume(const VolumePooling &v, const Buffer<T> &in, std::int64_t volume, std::int64_t z,
                     const std::int64_t (&at)[2], std::int64_t f) {
  const Pooling &p = v.plane;
  T total = static_cast<T>(p.initial);
  for (std::int64_t k = 0; k < v.window; ++k) {
    const std::int64_t plane = z * v.stride + k - v.pad_low;
    if (plane < 0 || plane >= v.in_size) continue;
    Pooling next = p;
    next.initial = static_cast<double>(total);
    next.factor = 1;
    total = expected(next, in, volume * v.in_size + plane, at, f);
  }
  return total * static_cast<T>(p.factor);
}

template <class T>
void check_volume(Random &random, const VolumePooling &v) {
  const Pooling &p = v.plane;
  Buffer<T> in(p.batch * v.in_size * p.in_size[0] * p.in_size[1] * p.in_step);
  Buffer<T> out(p.batch * v.out_size * p.out_size[0] * p.out_size[1] * p.features);
  in.fill(random);
  volume_pooling(v, in.data(), out.data());
  std::int64_t wrong = 0, next = 0;
  for (std::int64_t i = 0; i < p.batch; ++i)
    for (std::int64_t z = 0; z < v.out_size; ++z)
      for (std::int64_t y = 0; y < p.out_size[0]; ++y)
        for (std::int64_t x = 0; x < p.out_size[1]; ++x)
          for (std::int64_t f = 0; f < p.features; ++f, ++next)
            if (!is_same(expected_of_volume(v, in, i, z, {y, x}, f), out[next])) ++wrong;
  CHECK(wrong == 0);
  Buffer<T> shared(out.size());
  const OneThread thread(random, [](std::int64_t) { return std::size_t{0}; });
  volume_pooling_in_parts(thread.shared(), v, in.data(), shared.data());
  check_same_bits(out, shared);
}

template <class T>
void test_volumes(std::uint64_t seed, int count) {
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    VolumePooling v{0, 0, 0, 0, 0, 0, random_pooling(random, 6, 6)};
    v.batch = v.plane.batch;
    v.in_size = random.integer(1, 6);
    v.window = random.integer(1, 4);
    v.out_size = random.integer(1, 5);
    v.stride = random.integer(1, 3);
    v.pad_low = random.integer(-1, 3);
    check_volume<T>(random, v);
  }
}

/// Maxima of 8-bit integers, some of which are surrounded by a number.
void test_bytes(std::uint64_t seed, int count) {
  using Byte = std::int8_t;
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    Pooling p = random_pooling(random, 13, 13);
    p.reducer = Reducer::kMaximum;
    p.initial = -128;
    p.in_factor = p.factor = 1;
    p.is_padded = random.chance(40);
    p.padding = static_cast<double>(random.integer(-128, 127));
    Buffer<Byte> in(p.batch * p.in_size[0] * p.in_size[1] * p.in_step);
    Buffer<Byte> out(p.batch * p.out_size[0] * p.out_size[1] * p.features);
    for (Byte &one : in) one = static_cast<Byte>(random.integer(-128, 127));
    pooling(p, in.data(), out.data());
    std::int64_t wrong = 0, next = 0;
    for (std::int64_t image = 0; image < p.batch; ++image)
      for (std::int64_t y = 0; y < p.out_size[0]; ++y)
        for (std::int64_t x = 0; x < p.out_size[1]; ++x)
          for (std::int64_t f = 0; f < p.features; ++f, ++next)
            if (expected(p, in, image, {y, x}, f) != out[next]) ++wrong;
    CHECK(wrong == 0);
    check_ranges(random, p, in, out);
  }
}

template <class T>
void test_random(std::uint64_t seed, int count) {
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    Pooling p = random_pooling(random, 13, 13);
    if (random.chance(30)) p.in_step += random.integer(1, 40);
    if (p.reducer == Reducer::kMaximum && random.chance(40)) {
      const double numbers[] = {0, -0.0, 0.5, -2, NAN, INFINITY};
      p.is_padded = true;
      p.padding = random.pick(numbers);
    }
    check<T>(random, p);
  }
}

}  // namespace

KERNEL_INSTANCES(pooling<float>, pooling<std::int8_t>, volume_pooling<float>)

KERNEL_TEST(volume_pooling) { test_volumes<float>(62, 200); }

KERNEL_TEST(pooling) {
  test_random<float>(60, 400);
  test_random<double>(61, 60);
  test_bytes(63, 200);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
