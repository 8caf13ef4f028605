// src/kernels/convolution/windows.cpp - what windows.h declares `extern template`, for one level and element
// type.
#include "kernels/convolution/windows.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void convolve_gemm(const Convolution &, const Element *, const Element *, Element *, void *,
                            const Epilogue<Element> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
