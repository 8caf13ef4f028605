// src/kernels/convolution/parts.h - convolutions in parts, for the threads of the caller.
#pragma once

#include "kernels/convolution/convolution.h"
#include "kernels/convolution/ranges.h"
#include "kernels/gemm/parts.h"

namespace modelwheel::MODELWHEEL_LEVEL {

template <class T>
constexpr Division division_of(const Convolution &c, std::int64_t parts) {
  const Division undivided{Along::kColumns, c.out_features, c.out_features};
  const Division columns = has_columns(c) ? in_columns(c.out_features, parts) : undivided;
  const Division rows = in_units(Along::kRows, c.rank == 0 ? 1 : c.out_size[0], unit_of<T>(c), parts);
  return best_division<T>(c, c.batch, rows, columns, has_few_rows<T>(c, rows.step, columns.step, parts), parts);
}

/// Bytes of scratch memory of each part of a convolution.
template <class T>
constexpr std::size_t convolution_part_scratch(const Convolution &c, std::int64_t most) {
  return largest_part(
      c, most, [&](std::int64_t parts) { return division_of<T>(c, parts); },
      [](const Convolution &part) { return convolution_scratch<T>(part); });
}

/// How a convolution is divided: a function of its own, which those below share.
template <class T>
MODELWHEEL_COLD MODELWHEEL_NOINLINE Division division_for(const Shared &shared, const Convolution &c) {
  return division_of<T>(c, shared.parts());
}

/// `convolution_by` in parts.
template <class T, int kMethod>
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

}  // namespace modelwheel::MODELWHEEL_LEVEL
