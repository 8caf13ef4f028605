// src/kernels/gemm/gemm.cpp - what gemm.h declares `extern template`, for one level and element type.
#include "kernels/gemm/uses.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using Element = MODELWHEEL_ELEMENT;
template void gemm(const Gemm &, const Element *, const Element *, Element *, Element *, const Epilogue<Element> *);

namespace {
constexpr GemmUses kEvery = every_use();
}  // namespace

/// Nobody calls it, so that no library has it: because of it, this object has every kernel that may be called.
void every_call(const int (&at)[3], const Gemm &g, const Strip<Element> &strip, const Run<Element> &run,
                const LargeTile<Element> &large, Element *memory);
void every_call(const int (&at)[3], const Gemm &g, const Strip<Element> &strip, const Run<Element> &run,
                const LargeTile<Element> &large, Element *memory) {
  using Calls = LinkedCalls<Element, kEvery>;
  Element *out[] = {memory};
  Calls::form(at[0], g, memory, memory, memory, memory, nullptr);
  Calls::tile(at[0], at[1], at[2], strip, out, out);
  Calls::strip(at[0], at[1], at[2], strip, run);
  Calls::large_tile(at[0], large);
  Calls::panels(at[0], g, memory, memory, memory, at[1], nullptr);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
