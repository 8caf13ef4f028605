// src/kernels/convolution_winograd.cpp - what convolution_winograd.h declares `extern template`, for one level and
// element type.
#include "convolution_winograd.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void convolve_winograd(const Convolution &, const Element *, const Element *, Element *, void *,
                                const Epilogue<Element> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
