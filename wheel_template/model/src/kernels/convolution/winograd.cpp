// src/kernels/convolution/winograd.cpp - what winograd.h declares `extern template`, for one level and
// element type.
#include "kernels/convolution/winograd.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void convolve_winograd<Element, Tiling<3, 3>>(const Convolution &, const Element *, const Element *, Element *,
                                                       void *, const Epilogue<Element> *);
template void convolve_winograd<Element, Tiling<1, 3>>(const Convolution &, const Element *, const Element *, Element *,
                                                       void *, const Epilogue<Element> *);
template void convolve_winograd<Element, Tiling<1, 5>>(const Convolution &, const Element *, const Element *, Element *,
                                                       void *, const Epilogue<Element> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
