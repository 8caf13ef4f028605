// src/kernels/gemm/bf16_dot.cpp - what bf16_dot.h declares `extern template`, for one level and element type.
#include "kernels/gemm/bf16_dot.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void bf16_dot(const Dot &, const Element *, const BF16 *, Element *, void *, const Epilogue<Element> *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
