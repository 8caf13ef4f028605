// src/kernels/parts.h - steps of a run in parts, for the threads of the caller.
//
// A step is divided where each part has the bits of the whole: into images or products of a batch, into rows, or into
// columns where there are few rows. Rows come first because the next step is divided alike: a thread then reads what it
// wrote itself, and nobody writes the weights, which all threads read. With few rows there are more weights than
// results: of those, each thread reads only its columns.
#pragma once

#include "gemm_uses.h"
#include "ranges.h"
#include "threads.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Most parts of a step: for each number of them, their scratch memory is found by trying.
inline constexpr std::int64_t kMostParts = kMostThreads;

/// The threads of a run, for a step of which at most `most` parts are worth a thread each.
struct Shared {
  const Threads &threads;
  std::int64_t most;

  std::int64_t parts() const {
    return smaller_of(static_cast<std::int64_t>(threads.count), smaller_of(most, kMostParts));
  }

  /// Calls part(i, its scratch memory) for each i < count, on any of the threads.
  template <class Part>
  void run(std::int64_t count, const Part &part) const {
    Task<Part> task{part, threads};
    threads.run(threads.context, static_cast<std::size_t>(count), Task<Part>::run, &task);
  }

 private:
  /// A function, not a lambda: of one that becomes a pointer, GCC 8 keeps a copy that nobody calls.
  template <class Part>
  struct Task {
    const Part &part;
    const Threads &threads;

    static void run(void *argument, std::size_t i) {
      const Task &of = *static_cast<const Task *>(argument);
      of.part(static_cast<std::int64_t>(i), of.threads.scratch + i * of.threads.part_bytes);
    }
  };
};

enum class Along { kBatch, kRows, kColumns };

/// Equal ranges along one axis of a result, the last of which may be smaller.
struct Division {
  Along along;
  std::int64_t size, step;

  constexpr std::int64_t count() const { return size > step ? divide_up(size, step) : 1; }
  constexpr Range range(std::int64_t i) const { return {i * step, smaller_of((i + 1) * step, size)}; }
};

/// One of the parts.
template <class Shape>
constexpr Ranged<Shape> part_of(const Shape &whole, const Division &division, std::int64_t i) {
  const Range range = division.range(i);
  if (division.along == Along::kBatch) return batch_range(whole, range);
  return as_whole(whole, division.along == Along::kRows ? row_range(whole, range) : column_range(whole, range));
}

/// Whether all parts have the bits of the whole.
template <class T, class Shape>
constexpr bool same_order(const Shape &whole, const Division &division) {
  for (std::int64_t i = 0; i < division.count(); ++i)
    if (!same_order<T>(whole, part_of(whole, division, i).shape)) return false;
  return true;
}

/// Whether a batch divides without leaving threads idle for long.
constexpr bool divides(std::int64_t batch, std::int64_t parts) { return batch >= 4 * parts || batch % parts == 0; }

/// Ranges of so many units, of which every part has some; otherwise nothing is divided.
constexpr Division in_units(Along along, std::int64_t size, std::int64_t unit, std::int64_t parts) {
  return {along, size, size < parts * unit ? size : divide_up(divide_up(size, parts), unit) * unit};
}

/// Columns in whole panels, which are whole vectors, and two of them at least.
constexpr Division in_columns(std::int64_t n, std::int64_t parts) {
  const Division columns = in_units(Along::kColumns, n, kPanel, parts);
  return columns.step < 2 * kPanel ? Division{Along::kColumns, n, n} : columns;
}

/// How a result is best divided.
template <class T, class Shape>
constexpr Division best_division(const Shape &whole, std::int64_t batch, const Division &rows, const Division &columns,
                                 bool few_rows, std::int64_t parts) {
  const Division none{Along::kBatch, batch, batch};
  if (parts < 2) return none;
  const Division by_batch{Along::kBatch, batch, divide_up(batch, parts)};
  if (batch >= parts && divides(batch, parts)) return by_batch;
  const Division &first = few_rows ? columns : rows, &second = few_rows ? rows : columns;
  if (first.count() > 1 && same_order<T>(whole, first)) return first;
  return second.count() > 1 && same_order<T>(whole, second) ? second : none;
}

template <class T>
constexpr Division division_of(const Dot &d, std::int64_t parts) {
  constexpr std::int64_t kFewRows = 32;
  // The weights may be on the left, in panels, if there is one column.
  const Division rows = in_units(Along::kRows, d.m, d.n == 1 ? kPanel : 1, parts);
  return best_division<T>(d, d.batch, rows, in_columns(d.n, parts), d.m < kFewRows * parts, parts);
}

/// What the largest part costs by Winograd's method, in products of vectors: parts by rows transform all filters, those
/// by columns all inputs.
template <class T>
constexpr std::int64_t winograd_cost(const Convolution &c, std::int64_t rows, std::int64_t columns) {
  Convolution part = c;
  part.out_size[0] = rows;
  const WinogradPlan plan = winograd_plan<T>(part);
  return plan.kinds * plan.tiles * c.in_features * columns +
         transform_cost(plan) * (plan.tiles * c.in_features + c.in_features * columns + plan.tiles * columns);
}

template <class T>
constexpr Division division_of(const Convolution &c, std::int64_t parts) {
  const Division undivided{Along::kColumns, c.out_features, c.out_features};
  const Division columns = has_columns(c) ? in_columns(c.out_features, parts) : undivided;
  // Along a line, a row is one place. Adjacent outputs are along the last axis.
  const std::int64_t few = c.rank == 1 ? 16 : 4;
  const std::int64_t unit = prefers_winograd<T>(c)     ? tile_side(c.kernel_size[0])
                            : c.rank != 1              ? 1
                            : prefers_decomposed<T>(c) ? 2 * kLanes<T>
                                                       : adjacent_outputs<T>(c);
  const Division rows = in_units(Along::kRows, c.rank == 0 ? 1 : c.out_size[0], unit, parts);
  const bool few_rows = prefers_winograd<T>(c) ? winograd_cost<T>(c, c.out_size[0], columns.step) <
                                                     winograd_cost<T>(c, rows.step, c.out_features)
                                               : c.rank == 0 || c.out_size[0] < few * parts;
  return best_division<T>(c, c.batch, rows, columns, few_rows, parts);
}

/// Most scratch memory of any part, in bytes, however many parts there are.
template <class T, class Shape, class Bytes>
constexpr std::size_t largest_part(const Shape &whole, std::int64_t most, const Bytes &bytes) {
  std::size_t largest = 0;
  for (std::int64_t parts = 2; parts <= smaller_of(most, kMostParts); ++parts) {
    const Division division = division_of<T>(whole, parts);
    for (std::int64_t i = 0; division.count() > 1 && i < division.count(); ++i)
      largest = larger_of(largest, bytes(part_of(whole, division, i).shape));
  }
  return largest;
}

/// Bytes of scratch memory of each part of a dot.
template <class T>
constexpr std::size_t dot_part_scratch(const Dot &d, std::int64_t most) {
  return largest_part<T>(d, most, [](const Dot &part) { return dot_scratch<T>(part); });
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

/// The same for a convolution.
template <class T>
constexpr std::size_t convolution_part_scratch(const Convolution &c, std::int64_t most) {
  return largest_part<T>(c, most, [](const Convolution &part) { return convolution_scratch<T>(part); });
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

/// `dot` of floats or doubles in parts; the scratch memory is for the case that there is one part.
template <class T>
MODELWHEEL_NOINLINE void dot_in_parts(const Shared &shared, const Dot &d, const T *lhs, const T *rhs, T *out,
                                      void *scratch, const Epilogue<T> *epilogue = nullptr) {
  if (shared.parts() < 2) return dot<T, T>(d, lhs, rhs, out, scratch, epilogue);
  const Division division = division_of<T>(d, shared.parts());
  if (division.count() == 1) return dot<T, T>(d, lhs, rhs, out, scratch, epilogue);
  const bool later = epilogue != nullptr && finishes_later<T>(d, *epilogue);
  product_in_parts(shared, d, division, later ? nullptr : epilogue,
                   [&](const Ranged<Dot> &part, void *memory, const Epilogue<T> *own) {
                     dot<T, T>(part.shape, lhs + part.left, rhs + part.right, out + part.out, memory, own);
                   });
  if (later) finish_in_parts(shared, *epilogue, d.batch * d.m, row_step(d), d.n);
}

/// How a convolution is divided: a function of its own, which those below share.
template <class T>
MODELWHEEL_COLD MODELWHEEL_NOINLINE Division division_for(const Shared &shared, const Convolution &c) {
  return division_of<T>(c, shared.parts());
}

/// The same for `convolution_by`.
template <class T, Method kMethod>
MODELWHEEL_NOINLINE void convolution_in_parts_by(const Shared &shared, const Convolution &c, const T *in,
                                                 const T *kernel, T *out, void *scratch,
                                                 const Epilogue<T> *epilogue = nullptr) {
  if (shared.parts() < 2) return convolution_by<T, kMethod>(c, in, kernel, out, scratch, epilogue);
  const Division division = division_for<T>(shared, c);
  if (division.count() == 1) return convolution_by<T, kMethod>(c, in, kernel, out, scratch, epilogue);
  const bool later = epilogue != nullptr && must_wait(*epilogue);
  product_in_parts(shared, c, division, later ? nullptr : epilogue,
                   [&](const Ranged<Convolution> &part, void *memory, const Epilogue<T> *own) {
                     convolution_by<T, kMethod>(part.shape, in + part.left, kernel + part.right, out + part.out, memory,
                                                own);
                   });
  if (later) finish_in_parts(shared, *epilogue, out_places(c), c.out_features, c.out_features);
}

constexpr Division division_of(const Pooling &p, std::int64_t parts) {
  if (p.batch > 1) return {Along::kBatch, p.batch, divide_up(p.batch, parts)};
  if (p.out_size[0] * p.out_size[1] == 1) return in_columns(p.features, parts);
  return {Along::kRows, p.out_size[0], divide_up(p.out_size[0], parts)};
}

/// The same for `pooling`, which needs no scratch memory.
template <class T>
MODELWHEEL_NOINLINE void pooling_in_parts(const Shared &shared, const Pooling &p, const T *in, T *out) {
  const Division division = division_of(p, larger_of(shared.parts(), std::int64_t{1}));
  if (division.count() == 1) return pooling(p, in, out);
  shared.run(division.count(), [&](std::int64_t i, void *) {
    const Ranged<Pooling> part = part_of(p, division, i);
    pooling(part.shape, in + part.left, out + part.out);
  });
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
