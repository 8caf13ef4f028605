// dot.cpp - matrix products of all element types and layouts, against the definition.
#include "kernels/gemm/first_rows.h"

#include <cmath>
#include <initializer_list>

#include "check.h"
#include "epilogues.h"
#include "random.h"
#include "ranges.h"
#include "recorded.h"
#include "reference.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// Lays out [batch, rows, columns] in one of several ways; returns the number of elements.
std::int64_t lay_out(Random &random, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                     std::int64_t &batch_step, std::int64_t &row_step, std::int64_t &column_step) {
  const std::int64_t gap = random.chance(30) ? random.integer(1, 5) : 0;
  switch (random.integer(0, 4)) {
    case 0:  // columns contiguous
    case 1:
      column_step = 1;
      row_step = columns + gap;
      batch_step = rows * row_step;
      break;
    case 2:  // rows contiguous
      row_step = 1;
      column_step = rows + gap;
      batch_step = columns * column_step;
      break;
    case 3:  // nothing contiguous
      column_step = 2;
      row_step = 2 * columns + gap;
      batch_step = rows * row_step;
      break;
    default:  // batch innermost
      batch_step = 1;
      column_step = batch;
      row_step = columns * batch + gap;
  }
  return batch == 0 || rows == 0 || columns == 0
             ? 0
             : (batch - 1) * batch_step + (rows - 1) * row_step + (columns - 1) * column_step + 1;
}

struct Shape {
  std::int64_t batch, m, n, k;
};

template <class In, class Out>
void check_dot(const Dot &d, const Buffer<In> &lhs, const Buffer<In> &rhs, const Buffer<Out> &out) {
  std::int64_t wrong = 0;
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t i = 0; i < d.m; ++i)
      for (std::int64_t j = 0; j < d.n; ++j) {
        typename ReferenceOf<In, Out>::type sum;
        for (std::int64_t k = 0; k < d.k; ++k)
          sum.add(lhs[b * d.lhs_batch + i * d.lhs_m + k * d.lhs_k], rhs[b * d.rhs_batch + k * d.rhs_k + j * d.rhs_n]);
        if (!sum.matches(out[b * d.out_batch + i * d.out_m + j * d.out_n])) ++wrong;
      }
  if (wrong != 0)
    std::printf("dot batch %lld m %lld n %lld k %lld, lhs %lld %lld, rhs %lld %lld, out %lld %lld: %lld wrong\n",
                static_cast<long long>(d.batch), static_cast<long long>(d.m), static_cast<long long>(d.n),
                static_cast<long long>(d.k), static_cast<long long>(d.lhs_m), static_cast<long long>(d.lhs_k),
                static_cast<long long>(d.rhs_k), static_cast<long long>(d.rhs_n), static_cast<long long>(d.out_m),
                static_cast<long long>(d.out_n), static_cast<long long>(wrong));
  CHECK(wrong == 0);
}

/// Computes a product, and checks what it calls.
template <class In, class Out>
void compute(const Dot &d, const Buffer<In> &lhs, const Buffer<In> &rhs, Buffer<Out> &out) {
  Buffer<char> scratch(static_cast<std::int64_t>(dot_scratch<In, Out>(d)));
  const auto product = [&] { dot<In, Out>(d, lhs.data(), rhs.data(), out.data(), scratch.data()); };
  if constexpr (kHasGemm<In>)
    CHECK(calls_only(dot_uses<In>(d, false), d.batch > 0 && d.m > 0 && d.n > 0, product));
  else
    product();
}

/// Parts of a product have its bits.
template <class T>
void check_parts(Random &random, const Dot &d, const Buffer<T> &lhs, const Buffer<T> &rhs, const Buffer<T> &out) {
  Buffer<T> parts(out.size());
  Buffer<char> scratch(static_cast<std::int64_t>(dot_scratch<T>(d)));
  const OneThread thread(random, [&d](std::int64_t most) { return dot_part_scratch<T>(d, most); });
  const auto product = [&] {
    dot_in_parts<T>(thread.shared(), d, lhs.data(), rhs.data(), parts.data(), scratch.data());
  };
  CHECK(calls_only(dot_part_uses<T>(d, thread.shared().most, false), false, product));
  check_same_bits(out, parts);
}

/// So have ranges of any kind.
template <class In, class Out>
void check_ranges(Random &random, const Dot &d, const Buffer<In> &lhs, const Buffer<In> &rhs, const Buffer<Out> &out) {
  const std::int64_t axis = random.integer(0, 2), size = axis == 0 ? d.batch : axis == 1 ? d.m : d.n;
  const std::int64_t unit = d.panel != 0 && axis == (d.n == 1 ? 1 : 2) ? kPanel : 1;
  Buffer<Out> parts(out.size());
  const bool complete = in_ranges(random, divide_up(size, unit), [&](Range units) {
    const Range r{units.begin * unit, smaller_of(units.end * unit, size)};
    const Ranged<Dot> part = axis == 0 ? batch_range(d, r) : axis == 1 ? row_range(d, r) : column_range(d, r);
    if (!same_bits<In>(d, part.shape)) return false;
    Buffer<char> scratch(static_cast<std::int64_t>(dot_scratch<In, Out>(part.shape)));
    dot<In, Out>(part.shape, lhs.data() + part.left, rhs.data() + part.right, parts.data() + part.out, scratch.data());
    return true;
  });
  if (complete) check_same_bits(out, parts);
}

/// So have first rows along an axis of a batch, in the memory that is set aside for any number of them.
template <class T, class Axis>
void check_first_rows(Random &random, const Dot &d, const Axis &axis, std::int64_t batch, const Buffer<T> &lhs,
                      const Buffer<T> &rhs, const Buffer<T> &out) {
  const RowCounts counts{batch, random.chance(70) ? 1 : random.integer(1, batch)};
  const std::int64_t least = least_rows<T>(d, axis, counts);
  const std::int64_t rows = rounded_rows(counts, least, random.integer(1, batch));
  const Dot first = first_rows(d, axis, batch, rows);
  Buffer<T> some(out.size());
  std::memcpy(some.data(), out.data(), static_cast<std::size_t>(out.size()) * sizeof(T));
  for (std::int64_t b = 0; b < first.batch; ++b)
    for (std::int64_t g = 0; g < first.groups; ++g)
      for (std::int64_t i = 0; i < first.m; ++i)
        for (std::int64_t j = 0; j < d.n; ++j)
          some[b * d.out_batch + g * first.out_group + i * d.out_m + j * d.out_n] = T{};
  Buffer<char> scratch(static_cast<std::int64_t>(
      scratch_of_rows(d, axis, counts, least, [](const Dot &of) { return dot_scratch<T>(of); })));
  const auto product = [&] { dot<T, T>(first, lhs.data(), rhs.data(), some.data(), scratch.data()); };
  CHECK(calls_only(dot_rows_uses<T>(d, axis, counts, least, false), false, product));
  check_same_bits(out, some);
}

/// Along the axis that rows of a batch are along, once or in several groups.
template <class T>
void check_first_rows(Random &random, const Dot &d, const Buffer<T> &lhs, const Buffer<T> &rhs, const Buffer<T> &out) {
  if (d.m < 1 || d.batch < 1 || (d.panel != 0 && d.n == 1)) return;
  std::int64_t Dot::*const axis = d.batch > 1 ? &Dot::batch : &Dot::m;
  const auto part_of = [&random](std::int64_t size) { return random.chance(30) && size % 3 == 0 ? size / 3 : size; };
  check_first_rows(random, d, axis, part_of(d.*axis), lhs, rhs, out);
  for (const std::int64_t groups : {2, 3, 5})
    if (d.batch == 1 && d.m % groups == 0)
      check_first_rows(random, d, Groups{groups}, part_of(d.m / groups), lhs, rhs, out);
}

/// The epilogue as the generated code has it: where the result replaces what is added to it and no sums are stored,
/// with the result in place of the sums.
template <class T>
Epilogue<T> without_sums(const Dot &d, Epilogue<T> e) {
  if (in_place(e) && !e.overlaps && dot_sums<T>(d) == 0) e.sums = e.result;
  return e;
}

/// The product with epilogues, whole and in parts. `plain` has its sums, rows without gaps.
template <class T>
void check_epilogues(Random &random, const Dot &d, const T *lhs, const T *rhs, const Buffer<T> &plain) {
  const auto spaced = [&d](std::int64_t step) {
    Dot apart = d;
    apart.out_m = step;
    apart.out_batch = d.m * step;
    return apart;
  };
  Buffer<char> scratch(static_cast<std::int64_t>(dot_scratch<T>(d)));
  check_epilogues(
      random, plain, d.n,
      [&](T *sums, const Epilogue<T> &epilogue, std::int64_t step) {
        const Dot apart = spaced(step);
        const Epilogue<T> own = without_sums(apart, epilogue);
        T *const out = own.sums == epilogue.sums ? sums : own.result;
        CHECK(calls_only(dot_uses<T>(apart, own.addend != nullptr), false,
                         [&] { dot<T, T>(apart, lhs, rhs, out, scratch.data(), &own); }));
      },
      [&](T *sums, const Epilogue<T> &epilogue, std::int64_t step) {
        const Dot apart = spaced(step);
        const OneThread thread(random, [&apart](std::int64_t most) { return dot_part_scratch<T>(apart, most); });
        const Epilogue<T> own = without_sums(apart, epilogue);
        T *const out = own.sums == epilogue.sums ? sums : own.result;
        CHECK(calls_only(dot_part_uses<T>(apart, thread.shared().most, own.addend != nullptr), false,
                         [&] { dot_in_parts<T>(thread.shared(), apart, lhs, rhs, out, scratch.data(), &own); }));
      });
}

/// A product in a random layout. What lies between the operands' rows is NaN, and a few elements may be special.
template <class In, class Out>
void test_shape(Random &random, const Shape &s, bool special = false) {
  Dot d{s.batch, s.m, s.n, s.k, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  Buffer<In> lhs(lay_out(random, s.batch, s.m, s.k, d.lhs_batch, d.lhs_m, d.lhs_k));
  Buffer<In> rhs(lay_out(random, s.batch, s.k, s.n, d.rhs_batch, d.rhs_k, d.rhs_n));
  Buffer<Out> out(lay_out(random, s.batch, s.m, s.n, d.out_batch, d.out_m, d.out_n));
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t k = 0; k < s.k; ++k) {
      for (std::int64_t i = 0; i < s.m; ++i) random.draw(lhs[b * d.lhs_batch + i * d.lhs_m + k * d.lhs_k]);
      for (std::int64_t j = 0; j < s.n; ++j) random.draw(rhs[b * d.rhs_batch + k * d.rhs_k + j * d.rhs_n]);
    }
  if constexpr (kHasGemm<In>) {
    const In specials[] = {static_cast<In>(INFINITY), static_cast<In>(-INFINITY), static_cast<In>(NAN), In{0}};
    if (special && s.m > 0 && s.n > 0 && s.k > 0)
      for (int i = 0; i < 3; ++i) {
        const std::int64_t k = random.integer(0, s.k - 1);
        lhs[random.integer(0, s.m - 1) * d.lhs_m + k * d.lhs_k] = random.pick(specials);
        rhs[random.integer(0, s.n - 1) * d.rhs_n + k * d.rhs_k] = random.pick(specials);
      }
  }
  compute(d, lhs, rhs, out);
  check_dot(d, lhs, rhs, out);
  if (!special) check_ranges(random, d, lhs, rhs, out);
  if constexpr (kHasGemm<In>) {
    if (!special) check_parts(random, d, lhs, rhs, out);
    if (!special) check_first_rows(random, d, lhs, rhs, out);
    if (d.out_n == 1 && d.out_m == d.n && (d.batch == 1 || d.out_batch == d.m * d.n))
      check_epilogues(random, d, lhs.data(), rhs.data(), out);
  }
}

/// Sizes around those of vectors and tiles, and one of each for blocks of the inner dimension.
template <class T>
void test_fast(std::uint64_t seed) {
  Random random(seed);
  const std::int64_t sizes[] = {1,  1,  2,  3,  4,  5,  6,  7,  8,  9,  12, 13,  15,
                                16, 17, 20, 24, 31, 33, 36, 48, 49, 64, 65, 100, 130};
  for (int i = 0; i < 400; ++i)
    test_shape<T, T>(random, {random.integer(1, 3), random.pick(sizes), random.pick(sizes), random.pick(sizes)},
                     i % 2 == 0);
  for (const std::int64_t k : {383, 384, 385, 500, 800})
    for (const std::int64_t m : {1, 3, 20, 140}) {
      test_shape<T, T>(random, {1, m, random.integer(1, 20), k});
      test_shape<T, T>(random, {1, random.integer(1, 9), m, k});
      test_shape<T, T>(random, {1, m, random.integer(40, 150), k}, true);
    }
  test_shape<T, T>(random, {2, 130, 200, 130});
  // Strips of runs of rows: equal ones and a narrower one, a last vector that overlaps another.
  for (const std::int64_t n : {21, 24, 40, 41, 56, 100, 193})
    for (const std::int64_t m : {12, 16, 23, 64, 130}) test_shape<T, T>(random, {1, m, n, random.integer(1, 96)});
  for (const Shape &empty : {Shape{1, 5, 7, 0}, Shape{0, 3, 3, 3}, Shape{2, 0, 5, 4}, Shape{2, 5, 0, 4}})
    test_shape<T, T>(random, empty);
}

/// A product whose weights, `s.k` rows, are packed; they are lhs if it has one column.
void test_packed(Random &random, const Shape &s) {
  const bool on_left = s.n == 1;
  const std::int64_t columns = on_left ? s.m : s.n, gap = random.chance(30) ? random.integer(1, 5) : 0;
  Dot plain{1, s.m, s.n, s.k, 0, s.k + gap, 1, 0, columns, 1, 0, s.n + gap, 1};
  if (on_left) plain = {1, s.m, 1, s.k, 0, 1, columns, 0, 1, 1, 0, 1, 1};
  Dot packed = plain;
  (on_left ? packed.lhs_k : packed.rhs_k) = kPanel;
  packed.panel = kPanel * s.k;
  Buffer<float> weights(s.k * columns), panels(divide_up(columns, kPanel) * packed.panel),
      other(on_left ? s.k : s.m * plain.lhs_m);
  Buffer<float> out(on_left ? s.m : s.m * plain.out_m);
  other.fill(random);
  std::memset(panels.data(), 0, static_cast<std::size_t>(panels.size()) * sizeof(float));
  for (std::int64_t k = 0; k < s.k; ++k)
    for (std::int64_t j = 0; j < columns; ++j) {
      random.draw(weights[k * columns + j]);
      panels[j / kPanel * packed.panel + k * kPanel + j % kPanel] = weights[k * columns + j];
    }
  const float *const lhs = on_left ? panels.data() : other.data(), *const rhs = on_left ? other.data() : panels.data();
  compute(packed, on_left ? panels : other, on_left ? other : panels, out);
  check_dot(plain, on_left ? weights : other, on_left ? other : weights, out);
  check_ranges(random, packed, on_left ? panels : other, on_left ? other : panels, out);
  check_parts(random, packed, on_left ? panels : other, on_left ? other : panels, out);
  check_first_rows(random, packed, on_left ? panels : other, on_left ? other : panels, out);
  if (plain.out_m == columns || on_left) check_epilogues(random, packed, lhs, rhs, out);
}

/// As many rows as tiles have, and more and fewer; depths around those of blocks.
void test_panels(std::uint64_t seed) {
  Random random(seed);
  // Tiles of runs of rows: all as high as possible, some with a row less, and overlapping ones; several runs.
  for (std::int64_t m = 12; m <= 40; ++m)
    for (const std::int64_t columns : {32, 80, 112, 160}) test_packed(random, {1, m, columns, random.integer(1, 12)});
  for (const std::int64_t m : {33, 47, 50}) test_packed(random, {1, m, 1040, random.integer(1, 5)});
  const std::int64_t rows[] = {1, 1, 2, 5, 8, 15, 16, 17, 33, 64, 100};
  for (const std::int64_t columns : {16, 48, 64, 80, 144, 208})
    for (const std::int64_t k : {1, 7, 64, 97, 385, 800}) {
      test_packed(random, {1, random.pick(rows), columns, k});
      test_packed(random, {1, columns, 1, k});
    }
  test_packed(random, {1, 600, 96, 200});
  // Weights that are large: few rows of a tile and many, one block of the inner dimension and two.
  for (const std::int64_t m : {3, 5, 7, 13, 14, 27, 49, 70}) {
    test_packed(random, {1, m, 160, random.integer(210, 300)});
    test_packed(random, {1, m, 320, random.integer(110, 130)});
  }
  test_packed(random, {1, 49, 128, 1100});
  // The last panel is not full.
  for (const std::int64_t columns : {49, 56, 63, 95, 121, 129, 204, 333})
    for (const std::int64_t k : {1, 50, 300}) {
      test_packed(random, {1, random.pick(rows), columns, k});
      test_packed(random, {1, columns, 1, k});
    }
  for (const std::int64_t m : {1, 8, 64, 65, 150}) test_packed(random, {1, m, 200, 300});
}

constexpr GemmUses kCommon = common_uses();

/// Strips of one vector in a program without uneven tiles: nothing beside the result is written, however few rows it
/// has.
void test_missing_tiles(Random &random) {
  constexpr std::int64_t kWidth = kLanes<float>, kBeside = kTallRows * kWidth;
  for (std::int64_t rows = kRunRows + 1; rows <= 3 * kTallRows; ++rows) {
    const std::int64_t depth = random.integer(1, 9);
    Buffer<float> lhs(depth * rows), rhs(depth * kWidth), out(rows * kWidth + 2 * kBeside);
    for (float &value : lhs) value = static_cast<float>(random.integer(-9, 9));
    for (float &value : rhs) value = static_cast<float>(random.integer(-9, 9));
    for (float &value : out) value = 0.5F;
    const Segment segments[] = {{0, 0}};
    const Strip<float> strip{segments, 1, depth, rows, rhs.data(), kWidth, false, false, 0, kWidth, 0, nullptr, 0};
    const Run<float> run{lhs.data(), 1, out.data() + kBeside, kWidth, rows};
    call_strip<float, kLanes<float>, kCommon>(1, tall_tiles(rows), strip, run);
    std::int64_t wrong = 0;
    for (std::int64_t at = 0; at < out.size(); ++at) {
      const std::int64_t i = at / kWidth - kTallRows, j = at % kWidth;
      float expected = 0.5F;
      if (i >= 0 && i < rows) {
        expected = 0;
        for (std::int64_t k = 0; k < depth; ++k) expected += lhs[k * rows + i] * rhs[k * kWidth + j];
      }
      if (out[at] != expected) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

template <class In, class Out = In>
void test_generic(std::uint64_t seed) {
  Random random(seed);
  const std::int64_t sizes[] = {1, 2, 5, 15, 16, 17, 33, 40};
  for (int i = 0; i < 25; ++i)
    test_shape<In, Out>(random, {random.integer(1, 2), random.pick(sizes), random.pick(sizes), random.pick(sizes)});
  test_shape<In, Out>(random, {1, 3, 4, 0});
}

}  // namespace

KERNEL_INSTANCES(dot<T, T>, dot_scratch<T>, dot<std::int8_t, std::int32_t>)

KERNEL_TEST(dot) {
  test_fast<float>(1);
  test_fast<double>(2);
  test_panels(7);
  Random random(16);
  test_missing_tiles(random);
  test_generic<std::int8_t>(3);
  test_generic<std::int16_t>(4);
  test_generic<std::int32_t>(5);
  test_generic<std::int64_t>(6);
  test_generic<std::uint8_t>(7);
  test_generic<std::uint16_t>(8);
  test_generic<std::uint32_t>(9);
  test_generic<std::uint64_t>(10);
  test_generic<F16>(11);
  test_generic<BF16>(12);
  test_generic<Complex64>(13);
  test_generic<Complex128>(14);
  test_generic<std::int8_t, std::int32_t>(15);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
