// recorded.h - which kernels of matrix products are called.
#pragma once

#include "kernels/gemm/uses.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// What has been called since it was cleared.
extern GemmUses recorded;

/// Whether everything that `compute` calls is among `uses`; if `exact`, also the other way round.
template <class Compute>
bool calls_only(const GemmUses &uses, bool exact, const Compute &compute) {
  recorded = {};
  compute();
  bool only = true;
  GemmUses calls = recorded;
  for_uses(calls, uses, [&](bool called, bool used) { only = only && (called ? used : !(exact && used)); });
  return only;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
