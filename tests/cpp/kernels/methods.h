// methods.h - convolutions of any method. Generated code has the number of each in the call.
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/convolution/parts.h"

namespace modelwheel::MODELWHEEL_LEVEL {

using MethodNumbers = std::make_index_sequence<Methods::kCount>;

/// Calls by(number) with the number of a method as a constant.
template <class T, class By, std::size_t... Each>
void with_number(int number, const By &by, std::index_sequence<Each...>) {
  const auto call = [&](auto constant) {
    if constexpr (kMayCompute<T, false, MethodAt<decltype(constant)::value>>) by(constant);
  };
  ((number == static_cast<int>(Each) ? call(std::integral_constant<int, Each>()) : void()), ...);
}

template <class Method, std::size_t... Each>
constexpr int find_number(std::index_sequence<Each...>) {
  int number = -1;
  ((number = std::is_same_v<Method, MethodAt<Each>> ? static_cast<int>(Each) : number), ...);
  return number;
}

/// The number of a method.
template <class Method>
inline constexpr int kNumberOf = find_number<Method>(MethodNumbers());

/// Computes any convolution; see `convolution_by`.
template <class T>
void convolution(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                 const Epilogue<T> *epilogue = nullptr) {
  const auto compute = [&](auto number) {
    convolution_by<T, decltype(number)::value>(c, in, kernel, out, scratch, epilogue);
  };
  with_number<T>(method_of<T>(c), compute, MethodNumbers());
}

/// The same in parts.
template <class T>
void convolution_in_parts(const Shared &shared, const Convolution &c, const T *in, const T *kernel, T *out,
                          void *scratch, const Epilogue<T> *epilogue = nullptr) {
  const auto compute = [&](auto number) {
    convolution_in_parts_by<T, decltype(number)::value>(shared, c, in, kernel, out, scratch, epilogue);
  };
  with_number<T>(method_of<T>(c), compute, MethodNumbers());
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
