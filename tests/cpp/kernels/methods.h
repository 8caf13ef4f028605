// methods.h - convolutions of any method. Generated code has the method of each in the call.
#pragma once

#include <type_traits>

#include "kernels/convolution.h"
#include "kernels/parts.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Calls by(method) with a method as a constant.
template <class T, class By>
void with_method(Method method, const By &by) {
  if constexpr (kHasGemm<T> && sizeof(T) == sizeof(float)) {
    if (method == Method::kWinograd3x3) return by(std::integral_constant<Method, Method::kWinograd3x3>());
    if (method == Method::kWinograd3) return by(std::integral_constant<Method, Method::kWinograd3>());
    if (method == Method::kWinograd5) return by(std::integral_constant<Method, Method::kWinograd5>());
    if (method == Method::kDecomposed) return by(std::integral_constant<Method, Method::kDecomposed>());
    if (method == Method::kNarrow) return by(std::integral_constant<Method, Method::kNarrow>());
    if (method == Method::kAdjacent) return by(std::integral_constant<Method, Method::kAdjacent>());
  }
  if (method == Method::kDepthwise) return by(std::integral_constant<Method, Method::kDepthwise>());
  by(std::integral_constant<Method, Method::kWindows>());
}

/// Computes any convolution; see `convolution_by`.
template <class T>
void convolution(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                 const Epilogue<T> *epilogue = nullptr) {
  with_method<T>(method_of<T>(c), [&](auto method) {
    convolution_by<T, decltype(method)::value>(c, in, kernel, out, scratch, epilogue);
  });
}

/// The same in parts.
template <class T>
void convolution_in_parts(const Shared &shared, const Convolution &c, const T *in, const T *kernel, T *out,
                          void *scratch, const Epilogue<T> *epilogue = nullptr) {
  with_method<T>(method_of<T>(c), [&](auto method) {
    convolution_in_parts_by<T, decltype(method)::value>(shared, c, in, kernel, out, scratch, epilogue);
  });
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
