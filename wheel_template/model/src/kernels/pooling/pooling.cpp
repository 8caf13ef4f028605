// src/kernels/pooling/pooling.cpp - what pooling.h declares `extern template`, for one level and element type.
#include "kernels/pooling/pooling.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void pool_images<Element, Reducer::kMaximum>(const Pooling &, const Element *, Element *);
template void pool_images<Element, Reducer::kSum>(const Pooling &, const Element *, Element *);

}  // namespace modelwheel::MODELWHEEL_LEVEL
