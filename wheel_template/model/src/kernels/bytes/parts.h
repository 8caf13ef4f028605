// src/kernels/bytes/parts.h - convolutions of 8-bit integers in parts, for the threads of the caller.
#pragma once

#include "kernels/bytes/byte_convolution.h"
#include "kernels/parts/shared.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Bytes of scratch memory of each part of a convolution.
template <class In, class Out>
constexpr std::size_t byte_convolution_part_scratch(const Convolution &c, std::int64_t) {
  return byte_convolution_scratch<In, Out>(c);
}

/// `byte_convolution` in parts; the scratch memory is for the case that there is one part.
template <class In, class Out>
MODELWHEEL_NOINLINE void byte_convolution_in_parts(const Shared &shared, const Convolution &c, std::int8_t padding,
                                                   const In *in, const In *kernel, Out *out, void *scratch) {
  const Division division = byte_division(c, larger_of(shared.parts(), std::int64_t{1}));
  if (division.count() == 1) return byte_convolution<In, Out>(c, padding, in, kernel, out, scratch);
  shared.run(division.count(), [&](std::int64_t i, void *memory) {
    const ByteRange range = range_of(division, count_outputs(c), c.out_features, i);
    compute_sums<false>(c, range, padding, in, kernel, StoredSums{out, c.out_features, 1}, memory);
  });
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
