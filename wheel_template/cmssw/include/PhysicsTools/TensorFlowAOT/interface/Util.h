// PhysicsTools/TensorFlowAOT/interface/Util.h - the types of tfaot.
#ifndef PHYSICSTOOLS_TENSORFLOWAOT_UTIL_H
#define PHYSICSTOOLS_TENSORFLOWAOT_UTIL_H

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "modelwheel/compiled_function.hpp"

namespace tfaot {

/// The exception of tfaot: a std::runtime_error with one sentence (CMSSW throws cms::Exception instead).
using Exception = modelwheel::Error;

using AllocMode = modelwheel::CompiledFunction::AllocMode;

/// One vector of elements for each row.
using BoolArrays = std::vector<std::vector<bool>>;
using Int32Arrays = std::vector<std::vector<std::int32_t>>;
using Int64Arrays = std::vector<std::vector<std::int64_t>>;
using FloatArrays = std::vector<std::vector<float>>;
using DoubleArrays = std::vector<std::vector<double>>;

/// A function that calls its argument with each index as a std::integral_constant.
template <std::size_t... kIndex>
auto createIndexLooper(std::index_sequence<kIndex...>) {
  return [](auto &&visit) { (visit(std::integral_constant<std::size_t, kIndex>()), ...); };
}

/// Likewise for the indices 0 to kCount - 1.
template <std::size_t kCount>
auto createIndexLooper() {
  return createIndexLooper(std::make_index_sequence<kCount>());
}

}  // namespace tfaot

#endif  // PHYSICSTOOLS_TENSORFLOWAOT_UTIL_H
