// src/kernels/convolution/method.h - what a method of computing convolutions has; methods.h lists all of them.
//
// A method is a struct with these members, the functions static and constexpr but for `compute`:
//
//   kFor<T>                     whether it computes elements T; it is instantiated for no others
//   prefers<T>(c)               whether it computes c, if no method before it in the list does
//   scratch<T>(c)               bytes of scratch memory
//   compute<T>(c, in, kernel, out, scratch, epilogue)
//                               see `convolution_by`; the epilogue need not wait
//   same_bits<T>(whole, part)   whether a part has the bits that it has in the whole, if the method computes both
//
// and what differs from this base.
#pragma once

#include "kernels/base/numeric.h"
#include "kernels/convolution/shape.h"
#include "kernels/elementwise/epilogue.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// For methods of floats alone.
template <class T>
inline constexpr bool kIsFloat = kHasGemm<T> && sizeof(T) == sizeof(float);

struct ConvolutionMethod {
  /// Whether it computes the sums of the definition: strips have no others.
  static constexpr bool kIsDirect = false;
  /// Whether it computes parts too that it would not prefer by their shape alone; see Convolution::of_transforms.
  static constexpr bool kTransforms = false;

  /// Parts along the first spatial axis have a multiple of so many outputs, but for the last.
  template <class T>
  static constexpr std::int64_t unit(const Convolution &) {
    return 1;
  }

  /// Whether to divide columns rather than rows, of which the parts would have so many. Along a line, a row is one
  /// place.
  template <class T>
  MODELWHEEL_COLD static constexpr bool has_few_rows(const Convolution &c, std::int64_t, std::int64_t,
                                                     std::int64_t parts) {
    return c.rank == 0 || c.out_size[0] < (c.rank == 1 ? 16 : 4) * parts;
  }
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
