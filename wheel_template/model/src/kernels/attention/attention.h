// src/kernels/attention/attention.h - attention: softmax(scale * query key^T) value of each head, perhaps with masks.
//
// The scores of some queries are computed, made shares of 1 and multiplied by the values while they are in the cache.
// Heads are read and written where they are, in rows of all heads.
#pragma once

#include "kernels/attention/softmax.h"
#include "kernels/gemm/gemm.h"
#include "kernels/parts/division.h"
#include "kernels/parts/shared.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// A matrix for each head: how far apart neighbours are along both axes of heads, in rows and in columns.
struct Heads {
  std::int64_t outer, inner, row, column;
};

/// out[h, m, j] = sum over n of softmax(scores[h, m])[n] * value[h, n, j]. The scores are
/// scale * (sum over k of query[h, m, k] * key[h, n, k]) + added[h, m, n], or `replacement` where not kept[h, m, n].
struct Attention {
  /// Heads have two axes.
  std::int64_t outer, inner;
  std::int64_t queries, keys;
  /// Columns of query and key, and of value and out.
  std::int64_t depth, features;
  double scale;
  Heads query, key, value, out;
  /// Those of masks; keys follow each other.
  Heads added{}, kept{};
  double replacement = 0;
};

template <class T>
struct BitsOf;

template <>
struct BitsOf<float> {
  using type = std::int32_t;
};

template <>
struct BitsOf<double> {
  using type = std::int64_t;
};

/// An integer with the size of T.
template <class T>
using Bits = typename BitsOf<T>::type;

/// What changes scores; null for nothing. Rows are read to the end of the last vector.
template <class T>
struct Masks {
  const T *added = nullptr;
  /// -1 or 0.
  const Bits<T> *kept = nullptr;
};

/// Bytes of scores that are in the second-level cache with a head of keys and values.
inline constexpr std::int64_t kScoreBytes = 128 * 1024;
/// Fewest queries together: keys and values are read once for them.
inline constexpr std::int64_t kFewestQueries = 16;

/// Queries whose scores are computed together.
template <class T>
constexpr std::int64_t queries_together(const Attention &a) {
  const std::int64_t fitting = kScoreBytes / (softmax_step<T>(a.keys) * static_cast<std::int64_t>(sizeof(T)));
  return smaller_of(larger_of(fitting / kFewestQueries * kFewestQueries, kFewestQueries), a.queries);
}

/// Elements of scratch memory for the two products of some queries.
template <class T>
constexpr std::int64_t attention_gemm_scratch(const Attention &a) {
  const std::int64_t rows = queries_together<T>(a);
  return larger_of(gemm_scratch<T>(rows, a.depth, a.keys, 0), gemm_scratch<T>(rows, a.keys, a.features, 0));
}

/// Bytes of scratch memory that `attention` needs.
template <class T>
constexpr std::size_t attention_scratch(const Attention &a) {
  const std::int64_t step = softmax_step<T>(a.keys);
  return scratch_bytes<T>(softmax_rows<T>(queries_together<T>(a)) * step) + scratch_bytes<T>(a.depth * step) +
         scratch_bytes<T>(attention_gemm_scratch<T>(a));
}

/// Keys as columns, `step` elements from one row to the next.
template <class T>
MODELWHEEL_NOINLINE void keys_as_columns(const Attention &a, const T *key, T *columns, std::int64_t step) {
  if (a.key.column == 1) return transpose(key, a.key.row, a.keys, a.depth, columns, step);
  for (std::int64_t k = 0; k < a.depth; ++k)
    for (std::int64_t n = 0; n < a.keys; ++n) columns[k * step + n] = key[n * a.key.row + k * a.key.column];
}

/// Replaces some scores of a head, from a query on and `step` apart, by those after masks.
template <class T>
MODELWHEEL_NOINLINE void mask_scores(const Attention &a, T *scores, std::int64_t first, std::int64_t rows,
                                     std::int64_t step, const Masks<T> &masks) {
  constexpr int kWidth = kLanes<T>;
  const Vector<T> factor = splat<T>(static_cast<T>(a.scale)), other = splat<T>(static_cast<T>(a.replacement));
  for (std::int64_t m = 0; m < rows; ++m, scores += step) {
    const T *const added = masks.added ? masks.added + (first + m) * a.added.row : nullptr;
    const Bits<T> *const kept = masks.kept ? masks.kept + (first + m) * a.kept.row : nullptr;
    for (std::int64_t n = 0; n < step; n += kWidth) {
      // Rounded before something is added, as by the definition.
      Vector<T> score = load<T>(scores + n) * factor;
      keep_in_register(score);
      if (added) score += load<T>(added + n);
      if (kept) score = load<Bits<T>>(kept + n) != 0 ? score : other;
      store<T>(scores + n, score);
    }
  }
}

/// Some heads begin at these places of the masks.
template <class T>
MODELWHEEL_INLINE Masks<T> masks_of(const Masks<T> &masks, std::int64_t added, std::int64_t kept) {
  return {masks.added ? masks.added + added : nullptr, masks.kept ? masks.kept + kept : nullptr};
}

/// One head.
template <class T>
MODELWHEEL_NOINLINE void attention_of_head(const Attention &a, const T *query, const T *key, const T *value, T *out,
                                           void *scratch, const Masks<T> &masks) {
  const std::int64_t together = queries_together<T>(a), step = softmax_step<T>(a.keys);
  Scratch memory(scratch);
  T *const scores = memory.take<T>(softmax_rows<T>(together) * step), *const copy = memory.take<T>(a.depth * step);
  T *const rest = memory.take<T>(attention_gemm_scratch<T>(a));
  const bool copied = a.key.row != 1;
  if (copied) keys_as_columns(a, key, copy, step);
  const Segment all{0, 0};
  for (std::int64_t done = 0; done < a.queries; done += together) {
    const std::int64_t rows = smaller_of(together, a.queries - done);
    const RowAxis one{1, 0, 0}, asked{rows, a.query.row, step}, answered{rows, step, a.out.row};
    const Gemm first{{one, one, one, asked},       &all,   1, a.depth, a.query.column,
                     copied ? step : a.key.column, a.keys, 1, 1};
    gemm<T>(first, query + done * a.query.row, copied ? copy : key, scores, rest, nullptr);
    const bool masked = masks.added || masks.kept;
    if (masked) mask_scores<T>(a, scores, done, rows, step, masks);
    softmax_of_rows<T>(scores, rows, a.keys, static_cast<T>(masked ? 1 : a.scale));
    const Gemm second{
        {one, one, one, answered}, &all, 1, a.keys, 1, a.value.row, a.features, a.value.column, a.out.column};
    gemm<T>(second, scores, value, out + done * a.out.row, rest, nullptr);
  }
}

/// Where a head begins.
constexpr std::int64_t head_offset(const Attention &a, const Heads &heads, std::int64_t head) {
  return head / a.inner * heads.outer + head % a.inner * heads.inner;
}

/// Some heads.
template <class T>
void attention_of_heads(const Attention &a, Range heads, const T *query, const T *key, const T *value, T *out,
                        void *scratch, const Masks<T> &masks) {
  for (std::int64_t h = heads.begin; h < heads.end; ++h)
    attention_of_head<T>(a, query + head_offset(a, a.query, h), key + head_offset(a, a.key, h),
                         value + head_offset(a, a.value, h), out + head_offset(a, a.out, h), scratch,
                         masks_of(masks, head_offset(a, a.added, h), head_offset(a, a.kept, h)));
}

/// Computes attention. `scratch` has attention_scratch<T>(a) bytes and is 64-byte aligned; `out` overlaps no operand.
template <class T>
void attention(const Attention &a, const T *query, const T *key, const T *value, T *out, void *scratch,
               const Masks<T> &masks = {}) {
  attention_of_heads<T>(a, {0, a.outer * a.inner}, query, key, value, out, scratch, masks);
}

/// Bytes of scratch memory of each part.
template <class T>
constexpr std::size_t attention_part_scratch(const Attention &a, std::int64_t) {
  return attention_scratch<T>(a);
}

/// `attention` in parts, each of some heads; the scratch memory is for the case that there is one part.
template <class T>
void attention_in_parts(const Shared &shared, const Attention &a, const T *query, const T *key, const T *value, T *out,
                        void *scratch, const Masks<T> &masks = {}) {
  const std::int64_t heads = a.outer * a.inner;
  const Division some{Along::kBatch, heads, divide_up(heads, larger_of(shared.parts(), std::int64_t{1}))};
  if (some.count() == 1) return attention<T>(a, query, key, value, out, scratch, masks);
  shared.run(some.count(), [&](std::int64_t i, void *own) {
    attention_of_heads<T>(a, some.range(i), query, key, value, out, own, masks);
  });
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
