// src/kernels/convolution/depthwise.cpp - what depthwise.h declares `extern template`, for one level and
// element type.
#include "kernels/convolution/depthwise.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void convolve_depthwise(const Convolution &, const Element *, const Element *, Element *, void *,
                                 const Epilogue<Element> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
