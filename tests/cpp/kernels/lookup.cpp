// lookup.cpp - rows of a table, against the definition, and pooled, against both steps in turn.
#include "kernels/elementwise/lookup.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "check.h"
#include "kernels/pooling/embedding_bag.h"
#include "poolings.h"
#include "random.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// A row counted from the end if it is negative, then the nearest one in the table.
std::int64_t place(const Lookup &l, std::int64_t index) {
  const std::int64_t from_end = index < 0 ? index + l.wrap : index;
  return from_end < 0 ? 0 : from_end >= l.rows ? l.rows - 1 : from_end;
}

template <class Index>
void check(Random &random, const Lookup &l) {
  Buffer<std::int8_t> table(l.rows * l.row_bytes), out(l.count * l.row_bytes);
  Buffer<Index> indices(l.count);
  table.fill(random);
  const Index specials[] = {std::numeric_limits<Index>::min(),
                            std::numeric_limits<Index>::max(),
                            0,
                            -1,
                            static_cast<Index>(l.rows - 1),
                            static_cast<Index>(l.rows),
                            static_cast<Index>(-l.rows),
                            static_cast<Index>(-l.rows - 1)};
  for (std::int64_t i = 0; i < l.count; ++i)
    indices[i] =
        random.chance(30) ? random.pick(specials) : static_cast<Index>(random.integer(-2 * l.rows, 2 * l.rows));
  const auto *from = reinterpret_cast<const char *>(table.data());
  auto *to = reinterpret_cast<char *>(out.data());
  lookup(l, from, indices.data(), to);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < l.count; ++i) {
    const char *expected = from + place(l, indices[i]) * l.row_bytes;
    if (std::memcmp(to + i * l.row_bytes, expected, static_cast<std::size_t>(l.row_bytes)) != 0) ++wrong;
  }
  CHECK(wrong == 0);
}

/// A look-up of rows of `features` elements for each place of the input of a pooling.
template <class Index>
void check_bag(Random &random, const Pooling &p) {
  const std::int64_t count = p.batch * p.in_size[0] * p.in_size[1];
  const std::int64_t rows = random.integer(1, 30);
  const Lookup l{count, rows, p.features * static_cast<std::int64_t>(sizeof(float)), random.chance(50) ? rows : 0};
  Buffer<float> table(rows * p.features), found(count * p.features);
  Buffer<Index> indices(count);
  table.fill(random);
  const float specials[] = {NAN, INFINITY, -0.0F, 0.0F};
  for (int i = 0; i < 3; ++i) table[random.integer(0, table.size() - 1)] = random.pick(specials);
  for (std::int64_t i = 0; i < count; ++i) indices[i] = static_cast<Index>(random.integer(-2 * rows, 2 * rows));
  const auto *from = reinterpret_cast<const char *>(table.data());
  lookup(l, from, indices.data(), reinterpret_cast<char *>(found.data()));
  Buffer<float> expected(p.batch * p.out_size[0] * p.out_size[1] * p.features), out(expected.size());
  pooling(p, found.data(), expected.data());
  embedding_bag(l, p, from, indices.data(), out.data());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < out.size(); ++i)
    if (!is_same(expected[i], out[i])) ++wrong;
  CHECK(wrong == 0);
}

}  // namespace

KERNEL_INSTANCES(lookup<std::int32_t>, lookup<std::int64_t>, embedding_bag<float, std::int32_t>,
                 embedding_bag<float, std::int64_t>)

KERNEL_TEST(lookup) {
  Random random(80);
  for (int i = 0; i < 200; ++i) {
    Lookup l{random.integer(1, 40), random.integer(1, 30), random.integer(1, 300), 0};
    if (random.chance(50)) l.wrap = l.rows;
    check<std::int32_t>(random, l);
    check<std::int64_t>(random, l);
    const Pooling p = random_pooling(random, 20, 4);
    check_bag<std::int32_t>(random, p);
    check_bag<std::int64_t>(random, p);
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
