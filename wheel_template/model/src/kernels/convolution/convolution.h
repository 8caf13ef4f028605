// src/kernels/convolution/convolution.h - XLA's convolution, of any layout and element type.
#pragma once

#include "kernels/convolution/methods.h"

namespace modelwheel::MODELWHEEL_LEVEL {

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
template <class T, int kMethod>
void convolution_by(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                    const Epilogue<T> *epilogue = nullptr) {
  using Method = MethodAt<kMethod>;
  if constexpr (!kHasGemm<T>)
    Method::template compute<T>(c, in, kernel, out, scratch, epilogue);
  else
    with_epilogue(c, epilogue,
                  [&](const Epilogue<T> *now) { Method::template compute<T>(c, in, kernel, out, scratch, now); });
}

/// Computes a convolution by the sums of its definition; see `convolution_by`.
template <class T>
void direct_convolution(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                        const Epilogue<T> *epilogue = nullptr) {
  const auto compute = [&](const Epilogue<T> *now) {
    with_method<T, true>(method_of<T, true>(c),
                         [&](auto method) { decltype(method)::template compute<T>(c, in, kernel, out, scratch, now); });
  };
  if constexpr (!kHasGemm<T>)
    compute(epilogue);
  else
    with_epilogue(c, epilogue, compute);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
