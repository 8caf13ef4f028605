// src/kernels/convolution.h - XLA's convolution, of any layout and element type.
#pragma once

#include "convolution_adjacent.h"
#include "convolution_depthwise.h"
#include "convolution_gemm.h"
#include "convolution_generic.h"
#include "convolution_narrow.h"
#include "convolution_shape.h"
#include "convolution_winograd.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Bytes of scratch memory that `direct_convolution` needs.
template <class T>
constexpr std::size_t direct_convolution_scratch(const Convolution &c) {
  if constexpr (!kHasGemm<T>)
    return 0;
  else
    return is_depthwise(c) ? convolve_depthwise_scratch<T>(c) : convolve_gemm_scratch<T>(c);
}

/// Bytes of scratch memory that `convolution` needs.
template <class T>
constexpr std::size_t convolution_scratch(const Convolution &c) {
  if constexpr (kHasGemm<T>) {
    if (prefers_winograd<T>(c)) return convolve_winograd_scratch<T>(c);
    if (prefers_narrow<T>(c)) return convolve_narrow_scratch<T>(c);
    if (prefers_adjacent<T>(c)) return convolve_adjacent_scratch<T>(c);
  }
  return direct_convolution_scratch<T>(c);
}

/// Computes a convolution by compute(epilogue), and what must wait after it.
template <class T, class Compute>
MODELWHEEL_INLINE void with_epilogue(const Convolution &c, const Epilogue<T> *epilogue, const Compute &compute) {
  const bool later = epilogue != nullptr && must_wait(*epilogue);
  compute(later ? nullptr : epilogue);
  if (later) finish_rows(*epilogue, epilogue->sums, out_places(c), c.out_features, 0, c.out_features);
}

/// Computes a convolution by the sums of its definition; see `convolution`.
template <class T>
void direct_convolution(const Convolution &c, const T *in, const T *kernel, T *out, [[maybe_unused]] void *scratch,
                        [[maybe_unused]] const Epilogue<T> *epilogue = nullptr) {
  if constexpr (!kHasGemm<T>) {
    convolve_generic(c, in, kernel, out);
  } else {
    with_epilogue(c, epilogue, [&](const Epilogue<T> *now) {
      if (is_depthwise(c))
        convolve_depthwise(c, in, kernel, out, scratch, now);
      else
        convolve_gemm(c, in, kernel, out, scratch, now);
    });
  }
}

/// Computes a convolution. `scratch` has convolution_scratch<T>(c) bytes and is 64-byte aligned. `epilogue` follows if
/// it is not null: it begins at `out`, its columns are the features, which are contiguous, and `out` is left in any
/// state. Unless the epilogue need not wait, the result is dense.
template <class T>
void convolution(const Convolution &c, const T *in, const T *kernel, T *out, [[maybe_unused]] void *scratch,
                 [[maybe_unused]] const Epilogue<T> *epilogue = nullptr) {
  if constexpr (kHasGemm<T> && sizeof(T) == sizeof(float)) {
    if (prefers_winograd<T>(c))
      return with_epilogue(c, epilogue,
                           [&](const Epilogue<T> *now) { convolve_winograd(c, in, kernel, out, scratch, now); });
    if (prefers_narrow<T>(c))
      return with_epilogue(c, epilogue,
                           [&](const Epilogue<T> *now) { convolve_narrow(c, in, kernel, out, scratch, now); });
    if (prefers_adjacent<T>(c))
      return with_epilogue(c, epilogue,
                           [&](const Epilogue<T> *now) { convolve_adjacent(c, in, kernel, out, scratch, now); });
  }
  direct_convolution(c, in, kernel, out, scratch, epilogue);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
