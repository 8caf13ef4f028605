// src/kernels/convolution.h - XLA's convolution, of any layout and element type.
#pragma once

#include "convolution_adjacent.h"
#include "convolution_decomposed.h"
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

/// How a convolution is computed.
enum class Method { kWindows, kDepthwise, kWinograd3x3, kWinograd3, kWinograd5, kDecomposed, kNarrow, kAdjacent };

/// Winograd's method for the windows of a convolution, which must have one.
constexpr Method winograd_method(const Convolution &c) {
  const WinogradAxes axes = winograd_axes(c);
  if (axes.axis[0].kernel_size == 3) return Method::kWinograd3x3;
  return axes.axis[1].kernel_size == 3 ? Method::kWinograd3 : Method::kWinograd5;
}

/// The quickest method. Generated code decides by this when it is compiled, so that a library has only the kernels of
/// methods that its model needs. Parts of a convolution (parts.h) have the method of the whole.
template <class T>
constexpr Method method_of(const Convolution &c) {
  if constexpr (kHasGemm<T> && sizeof(T) == sizeof(float)) {
    if (prefers_winograd<T>(c)) return winograd_method(c);
    if (prefers_decomposed<T>(c)) return Method::kDecomposed;
    if (prefers_narrow<T>(c)) return Method::kNarrow;
    if (prefers_adjacent<T>(c)) return Method::kAdjacent;
  }
  return is_depthwise(c) ? Method::kDepthwise : Method::kWindows;
}

/// Bytes of scratch memory that `convolution_by` needs.
template <class T>
constexpr std::size_t convolution_scratch(const Convolution &c) {
  if constexpr (kHasGemm<T>) {
    switch (method_of<T>(c)) {
      case Method::kWinograd3x3:
      case Method::kWinograd3:
      case Method::kWinograd5: return convolve_winograd_scratch<T>(c);
      case Method::kDecomposed: return convolve_decomposed_scratch<T>(c);
      case Method::kNarrow: return convolve_narrow_scratch<T>(c);
      case Method::kAdjacent: return convolve_adjacent_scratch<T>(c);
      case Method::kWindows:
      case Method::kDepthwise: break;
    }
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

/// Computes a convolution of which method_of is `kMethod`. `scratch` has convolution_scratch<T>(c) bytes and is 64-byte
/// aligned. `epilogue` follows if it is not null: it begins at `out`, its columns are the features, which are
/// contiguous, and `out` is left in any state. Unless the epilogue need not wait, the result is dense.
template <class T, Method kMethod>
void convolution_by(const Convolution &c, const T *in, const T *kernel, T *out, [[maybe_unused]] void *scratch,
                    [[maybe_unused]] const Epilogue<T> *epilogue = nullptr) {
  if constexpr (!kHasGemm<T>) {
    convolve_generic(c, in, kernel, out);
  } else {
    with_epilogue(c, epilogue, [&](const Epilogue<T> *now) {
      if constexpr (kMethod == Method::kWinograd3x3)
        convolve_winograd<T, Tiling<3, 3>>(c, in, kernel, out, scratch, now);
      else if constexpr (kMethod == Method::kWinograd3)
        convolve_winograd<T, Tiling<1, 3>>(c, in, kernel, out, scratch, now);
      else if constexpr (kMethod == Method::kWinograd5)
        convolve_winograd<T, Tiling<1, 5>>(c, in, kernel, out, scratch, now);
      else if constexpr (kMethod == Method::kDecomposed)
        convolve_decomposed(c, in, kernel, out, scratch, now);
      else if constexpr (kMethod == Method::kNarrow)
        convolve_narrow(c, in, kernel, out, scratch, now);
      else if constexpr (kMethod == Method::kAdjacent)
        convolve_adjacent(c, in, kernel, out, scratch, now);
      else if constexpr (kMethod == Method::kDepthwise)
        convolve_depthwise(c, in, kernel, out, scratch, now);
      else
        convolve_gemm(c, in, kernel, out, scratch, now);
    });
  }
}

/// Computes a convolution by the sums of its definition; see `convolution_by`.
template <class T>
void direct_convolution(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                        const Epilogue<T> *epilogue = nullptr) {
  if (kHasGemm<T> && is_depthwise(c))
    convolution_by<T, Method::kDepthwise>(c, in, kernel, out, scratch, epilogue);
  else
    convolution_by<T, Method::kWindows>(c, in, kernel, out, scratch, epilogue);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
