// src/kernels/convolution/decomposed.cpp - what decomposed.h declares `extern template`, for one level and
// element type.
#include "kernels/convolution/decomposed.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void convolve_decomposed(const Convolution &, const Element *, const Element *, Element *, void *,
                                  const Epilogue<Element> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
