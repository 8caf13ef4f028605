// src/kernels/gemm.cpp - what gemm.h declares `extern template`, for one level and element type.
#include "gemm.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void gemm(const Gemm &, const Element *, const Element *, Element *, Element *, const Epilogue<Element> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
