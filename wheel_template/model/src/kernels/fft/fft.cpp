// src/kernels/fft/fft.cpp - what fft.h declares `extern template`, for one level and element type.
#include "kernels/fft/fft.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void fft<Element>(const Fft &, const void *, void *, void *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
