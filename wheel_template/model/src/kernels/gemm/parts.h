// src/kernels/gemm/parts.h - matrix products in parts, for the threads of the caller.
#pragma once

#include "kernels/gemm/uses.h"
#include "kernels/parts/ranged.h"
#include "kernels/parts/shared.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Some of the products of a batch.
constexpr Ranged<Dot> batch_range(const Dot &d, Range r) {
  Ranged<Dot> part{d, r.begin * d.lhs_batch, r.begin * d.rhs_batch, r.begin * d.out_batch};
  part.shape.batch = length(r);
  return part;
}

/// Some rows of each product; of lhs in panels, whole panels or all that follow.
constexpr Ranged<Dot> row_range(const Dot &d, Range r) {
  const std::int64_t left = d.n == 1 ? column_offset(gemm_of(transposed(d), nullptr), r.begin) : r.begin * d.lhs_m;
  Ranged<Dot> part{d, left, 0, r.begin * d.out_m};
  part.shape.m = length(r);
  return part;
}

/// Some columns of each product; of rhs in panels, whole panels or all that follow.
constexpr Ranged<Dot> column_range(const Dot &d, Range r) {
  Ranged<Dot> part{d, 0, column_offset(gemm_of(d, nullptr), r.begin), r.begin * d.out_n};
  part.shape.n = length(r);
  return part;
}

/// Whether each element of a part is the same sum in the same order as in the whole, so that it has the same bits.
/// gemm_narrow and the kernel of other elements add the products of a column in the order that its neighbours allow.
template <class T>
MODELWHEEL_COLD constexpr bool same_bits(const Dot &whole, const Dot &part) {
  if (sizeof(T) == 1) return true;  // sums of integers have no order
  if (!kHasGemm<T>) return part.n == whole.n;
  const Dot form = oriented<T>(whole), own = oriented<T>(part);
  const bool narrow = prefers_narrow<T>(gemm_of(form, nullptr));
  return better_transposed<T>(whole) == better_transposed<T>(part) &&
         narrow == prefers_narrow<T>(gemm_of(own, nullptr)) && (!narrow || form.n == own.n);
}

template <class T>
constexpr Division division_of(const Dot &d, std::int64_t parts) {
  constexpr std::int64_t kFewRows = 32;
  // The weights may be on the left, in panels, if there is one column.
  const Division rows = in_units(Along::kRows, d.m, d.n == 1 ? kPanel : 1, parts);
  return best_division<T>(d, d.batch, rows, in_columns(d.n, parts), d.m < kFewRows * parts, parts);
}

/// Bytes of scratch memory of each part of a dot.
template <class T, class Out = T>
constexpr std::size_t dot_part_scratch(const Dot &d, std::int64_t most) {
  return largest_part(
      d, most, [&](std::int64_t parts) { return division_of<T>(d, parts); },
      [](const Dot &part) { return dot_scratch<T, Out>(part); });
}

/// What `dot_in_parts` calls, with at most so many parts; see dot_uses. All parts but the last are alike.
template <class T>
constexpr GemmUses dot_part_uses(const Dot &d, std::int64_t most, bool in_place) {
  GemmUses uses = dot_uses<T>(d, in_place);
  for (std::int64_t parts = 2; parts <= smaller_of(most, kMostParts); ++parts) {
    const Division division = division_of<T>(d, parts);
    if (division.count() == 1) continue;
    add_dot<T>(part_of(d, division, 0).shape, in_place, uses);
    add_dot<T>(part_of(d, division, division.count() - 1).shape, in_place, uses);
  }
  return uses;
}

/// A product, `compute` of a part, with an epilogue that does not wait, or with none.
template <class T, class Shape, class Compute>
void product_in_parts(const Shared &shared, const Shape &whole, const Division &division, const Epilogue<T> *epilogue,
                      const Compute &compute) {
  shared.run(division.count(), [&](std::int64_t i, void *scratch) {
    Epilogue<T> own{};
    if (epilogue != nullptr)
      own = from_column(*epilogue, division.along == Along::kColumns ? division.range(i).begin : 0);
    compute(part_of(whole, division, i), scratch, epilogue != nullptr ? &own : nullptr);
  });
}

/// An epilogue that waited until all parts are complete: rows of n sums, `step` apart.
template <class T>
void finish_in_parts(const Shared &shared, const Epilogue<T> &epilogue, std::int64_t rows, std::int64_t step,
                     std::int64_t n) {
  const Division some{Along::kRows, rows, divide_up(rows, shared.parts())};
  shared.run(some.count(), [&](std::int64_t i, void *) {
    const Range r = some.range(i);
    finish_rows(epilogue, epilogue.sums + r.begin * step, length(r), step, 0, n);
  });
}

/// `dot` of floats, doubles or bytes in parts; the scratch memory is for the case that there is one part.
template <class T, class Out = T>
MODELWHEEL_NOINLINE void dot_in_parts(const Shared &shared, const Dot &d, const T *lhs, const T *rhs, Out *out,
                                      void *scratch, const Epilogue<Out> *epilogue = nullptr) {
  if (shared.parts() < 2) return dot<T, Out>(d, lhs, rhs, out, scratch, epilogue);
  const Division division = division_of<T>(d, shared.parts());
  if (division.count() == 1) return dot<T, Out>(d, lhs, rhs, out, scratch, epilogue);
  if constexpr (kHasGemm<T>) {
    const bool later = epilogue != nullptr && finishes_later<T>(d, *epilogue);
    product_in_parts(shared, d, division, later ? nullptr : epilogue,
                     [&](const Ranged<Dot> &part, void *memory, const Epilogue<T> *own) {
                       dot<T, T>(part.shape, lhs + part.left, rhs + part.right, out + part.out, memory, own);
                     });
    if (later) finish_in_parts(shared, *epilogue, d.batch * d.m, row_step(d), d.n);
  } else {
    shared.run(division.count(), [&](std::int64_t i, void *memory) {
      const Ranged<Dot> part = part_of(d, division, i);
      dot<T, Out>(part.shape, lhs + part.left, rhs + part.right, out + part.out, memory);
    });
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
