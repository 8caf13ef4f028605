// src/kernels/convolution.h - XLA's convolution, of any layout and element type.
#pragma once

#include "convolution_depthwise.h"
#include "convolution_gemm.h"
#include "convolution_generic.h"
#include "convolution_shape.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Bytes of scratch memory that `convolution` needs.
template <class T>
constexpr std::size_t convolution_scratch(const Convolution &c) {
  if constexpr (!kHasGemm<T>)
    return 0;
  else
    return is_depthwise(c) ? convolve_depthwise_scratch<T>(c) : convolve_gemm_scratch<T>(c);
}

/// Computes a convolution. `scratch` has convolution_scratch<T>(c) bytes and is 64-byte aligned.
template <class T>
void convolution(const Convolution &c, const T *in, const T *kernel, T *out, [[maybe_unused]] void *scratch) {
  if constexpr (!kHasGemm<T>)
    convolve_generic(c, in, kernel, out);
  else if (is_depthwise(c))
    convolve_depthwise(c, in, kernel, out, scratch);
  else
    convolve_gemm(c, in, kernel, out, scratch);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
