// src/kernels/elementwise/epilogue.cpp - what epilogue.h declares `extern template`, for one level and element type.
#include "kernels/elementwise/epilogue.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void finish_rows(const Epilogue<Element> &, const Element *, std::int64_t, std::int64_t, std::int64_t,
                          std::int64_t);

}  // namespace modelwheel::MODELWHEEL_LEVEL
