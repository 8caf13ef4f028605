// src/kernels/convolution/methods.h - the methods of computing convolutions, and which of them computes one.
#pragma once

#include "kernels/convolution/adjacent.h"
#include "kernels/convolution/decomposed.h"
#include "kernels/convolution/depthwise.h"
#include "kernels/convolution/generic.h"
#include "kernels/convolution/narrow.h"
#include "kernels/convolution/padded.h"
#include "kernels/convolution/windows.h"
#include "kernels/convolution/winograd.h"

namespace modelwheel::MODELWHEEL_LEVEL {

template <class... Each>
struct MethodList {
  static constexpr int kCount = sizeof...(Each);
};

/// All methods: the first that prefers a convolution computes it.
using Methods = MethodList<WinogradMethod<Tiling<3, 3>>, WinogradMethod<Tiling<1, 3>>, WinogradMethod<Tiling<1, 5>>,
                           DecomposedMethod, NarrowMethod, AdjacentMethod, DepthwiseMethod, PaddedMethod, WindowsMethod,
                           GenericMethod>;

/// Whether a method may compute elements T; with `kDirect`, by the sums of the definition.
template <class T, bool kDirect, class Method>
inline constexpr bool kMayCompute = Method::template kFor<T> && (Method::kIsDirect || !kDirect);

template <class T, bool kDirect, class Method>
constexpr bool is_preferred(const Convolution &c) {
  if constexpr (kMayCompute<T, kDirect, Method>) return Method::template prefers<T>(c);
  return false;
}

template <class T, bool kDirect, class... Each>
constexpr int first_preferred(MethodList<Each...>, const Convolution &c) {
  int number = 0;
  static_cast<void>(((is_preferred<T, kDirect, Each>(c) || (++number, false)) || ...));
  return number;
}

/// The number of the quickest method. Generated code decides by this when it is compiled, so that a library has only
/// the kernels of methods that its model needs. Parts of a convolution (parts.h) have the method of the whole.
template <class T, bool kDirect = false>
constexpr int method_of(const Convolution &c) {
  return first_preferred<T, kDirect>(Methods(), c);
}

/// Calls visit(method) if `number` is that of a method; whether it is.
template <class T, bool kDirect, class Method, class Visit>
MODELWHEEL_INLINE constexpr bool visit_if(bool is_number, const Visit &visit) {
  if constexpr (kMayCompute<T, kDirect, Method>)
    if (is_number) visit(Method());
  return is_number;
}

template <class T, bool kDirect, class Visit, class... Each>
MODELWHEEL_INLINE constexpr void visit_number(MethodList<Each...>, int number, const Visit &visit) {
  int next = 0;
  static_cast<void>((visit_if<T, kDirect, Each>(next++ == number, visit) || ...));
}

/// Calls visit(method) with the method of a number, which method_of has returned.
template <class T, bool kDirect = false, class Visit>
MODELWHEEL_INLINE constexpr void with_method(int number, const Visit &visit) {
  visit_number<T, kDirect>(Methods(), number, visit);
}

template <int kNumber, class First, class... Rest>
constexpr auto method_at(MethodList<First, Rest...>) {
  if constexpr (kNumber == 0)
    return First();
  else
    return method_at<kNumber - 1>(MethodList<Rest...>());
}

/// The method of a number.
template <int kNumber>
using MethodAt = decltype(method_at<kNumber>(Methods()));

/// Bytes of scratch memory that `convolution_by` needs, or, with `kDirect`, `direct_convolution`.
template <class T, bool kDirect = false>
constexpr std::size_t convolution_scratch(const Convolution &c) {
  std::size_t bytes = 0;
  with_method<T, kDirect>(method_of<T, kDirect>(c),
                          [&](auto method) { bytes = decltype(method)::template scratch<T>(c); });
  return bytes;
}

/// Whether each element of a part is the same sum in the same order as in the whole, so that it has the same bits.
template <class T>
MODELWHEEL_COLD constexpr bool same_bits(const Convolution &whole, const Convolution &part) {
  const int number = method_of<T>(whole);
  bool same = false;
  if (number == method_of<T>(part))
    with_method<T>(number, [&](auto method) { same = decltype(method)::template same_bits<T>(whole, part); });
  return same;
}

/// Parts along the first spatial axis have a multiple of so many outputs.
template <class T>
constexpr std::int64_t unit_of(const Convolution &c) {
  std::int64_t unit = 1;
  with_method<T>(method_of<T>(c), [&](auto method) { unit = decltype(method)::template unit<T>(c); });
  return unit;
}

/// Whether columns are divided rather than rows, where parts would have so many of either.
template <class T>
constexpr bool has_few_rows(const Convolution &c, std::int64_t rows, std::int64_t columns, std::int64_t parts) {
  bool few = false;
  with_method<T>(method_of<T>(c),
                 [&](auto method) { few = decltype(method)::template has_few_rows<T>(c, rows, columns, parts); });
  return few;
}

/// Whether it is computed by transforms, which parts of it keep.
constexpr bool has_transforms(const Convolution &c) {
  bool has = false;
  with_method<float>(method_of<float>(c), [&](auto method) { has = decltype(method)::kTransforms; });
  return has;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
