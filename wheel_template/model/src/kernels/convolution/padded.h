// src/kernels/convolution/padded.h - convolutions whose features fill more than half a vector: zeros fill the rest.
//
// Ten features would be two half vectors that overlap, each of which reads a number for every multiplication. With
// zeros in the filters they are a whole vector. Some lines of the wider result are in scratch memory, from where the
// features go to the result, each output a vector whose rest the next output overwrites.
#pragma once

#include "kernels/convolution/adjacent.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Fewest outputs of an image, and elements of the inner dimension, that are worth copying the filters.
inline constexpr std::int64_t kFewestPadded = 64, kPaddedWindow = 16;
/// Bytes of the lines in scratch memory: they stay in the first-level cache.
inline constexpr std::int64_t kPaddedBytes = 16 * 1024;

/// Whether each part along the first axis is padded if the others are, or the order of its sums is the same if not:
/// then an element has the same bits in every part.
template <class T>
constexpr bool has_equal_parts(const Convolution &c) {
  Convolution part = c;
  // Outputs in the middle, whose windows are within the input along the first axis.
  part.in_size[0] = (c.kernel_size[0] - 1) * c.kernel_dilation[0] + 1;
  part.pad_low[0] = 0;
  part.out_size[0] = 1;
  return is_dense(c) || pieces_of<T>(part).padded == pieces_of<T>(c).padded;
}

/// Whether convolve_padded computes it, if no method before it does.
template <class T>
constexpr bool prefers_padded(const Convolution &c) {
  if (sizeof(T) != sizeof(float) || c.rank == 0 || c.groups != 1 || c.out_feature != 1) return false;
  if (2 * c.out_features <= kLanes<T> || c.out_features >= kLanes<T>) return false;
  std::int64_t places = 1;
  for (std::int64_t axis = 0; axis < c.rank; ++axis) {
    places *= c.out_size[axis];
    if (c.base_dilation[axis] != 1 || c.kernel_size[axis] == 0) return false;
  }
  return c.out_spatial[c.rank - 1] == c.out_features && places >= kFewestPadded &&
         window_elements(c) >= kPaddedWindow && has_equal_parts<T>(c);
}

/// Some positions along the first axis of an image, with features for whole vectors in dense memory.
template <class T>
constexpr Convolution with_padded_features(const Convolution &c) {
  Convolution wide = c;
  wide.batch = 1;
  wide.out_features = kLanes<T>;
  wide = with_adjacent(wide, 1);
  std::int64_t step = kLanes<T>;
  for (std::int64_t axis = c.rank - 1; axis > 0; step *= c.out_size[axis--]) wide.out_spatial[axis] = step;
  wide.out_spatial[0] = step;
  const std::int64_t lines = kPaddedBytes / (step * static_cast<std::int64_t>(sizeof(T)));
  wide.out_size[0] = smaller_of(larger_of(lines, std::int64_t{1}), c.out_size[0]);
  return wide;
}

/// Elements of the results that are in scratch memory.
constexpr std::int64_t padded_results(const Convolution &wide) { return wide.out_size[0] * wide.out_spatial[0]; }

/// Bytes of scratch memory that convolve_padded needs.
template <class T>
constexpr std::size_t convolve_padded_scratch(const Convolution &c) {
  const Convolution wide = with_padded_features<T>(c);
  // Any part may need more padding than the first one.
  Convolution whole = wide;
  whole.out_size[0] = c.out_size[0];
  return scratch_bytes<T>(adjacent_filters(wide)) + scratch_bytes<T>(kColumnOperands * kLanes<T>) +
         scratch_bytes<T>(padded_results(wide)) + convolve_gemm_scratch<T>(whole);
}

/// The features of `count` outputs that follow each other, of which `from` has whole vectors.
template <class T>
MODELWHEEL_INLINE void copy_features(const T *from, std::int64_t count, std::int64_t features, T *to) {
  for (std::int64_t i = 0; i + 1 < count; ++i) store<T>(to + i * features, load<T>(from + i * kLanes<T>));
  from += (count - 1) * kLanes<T>;
  to += (count - 1) * features;
  for (std::int64_t f = 0; f < features; ++f) to[f] = from[f];
}

/// Copies lines of an image, and finishes them if that is not done yet.
template <class T>
MODELWHEEL_NOINLINE void copy_lines(const Convolution &c, const Convolution &wide, const T *from, T *to,
                                    const Epilogue<T> *epilogue) {
  const std::int64_t last = c.rank - 1, count = wide.out_size[last];
  const std::int64_t planes = c.rank > 1 ? wide.out_size[0] : 1, runs = c.rank == 3 ? c.out_size[1] : 1;
  for (std::int64_t plane = 0; plane < planes; ++plane)
    for (std::int64_t run = 0; run < runs; ++run) {
      T *const line = to + (c.rank > 1 ? plane * c.out_spatial[0] : 0) + (c.rank == 3 ? run * c.out_spatial[1] : 0);
      copy_features(from, count, c.out_features, line);
      if (epilogue != nullptr) finish_rows(*epilogue, line, count, c.out_features, 0, c.out_features);
      from += count * kLanes<T>;
    }
}

/// A value for each feature, and zeros after them.
template <class T>
const T *padded(const T *values, std::int64_t features, T *to) {
  for (std::int64_t f = 0; f < kLanes<T>; ++f) to[f] = f < features ? values[f] : T(0);
  return to;
}

/// Computes a convolution for which prefers_padded holds; see `convolution_by`. The epilogue must not wait.
template <class T>
MODELWHEEL_NOINLINE void convolve_padded(const Convolution &c, const T *in, const T *kernel, T *out, void *memory,
                                         const Epilogue<T> *epilogue) {
  const Convolution wide = with_padded_features<T>(c);
  Scratch scratch(memory);
  T *const filters = scratch.take<T>(adjacent_filters(wide));
  T *const columns = scratch.take<T>(kColumnOperands * kLanes<T>);
  T *const results = scratch.take<T>(padded_results(wide));
  void *const rest = scratch.take<T>(0);
  copy_filters(c, 1, kLanes<T>, kernel, filters);
  // What is added element by element has no zeros between.
  const bool later = epilogue != nullptr && epilogue->addend != nullptr;
  Epilogue<T> follows{};
  if (epilogue != nullptr) {
    follows = with_columns(*epilogue, [&](const T *values, int number) {
      return padded(values, c.out_features, columns + number * kLanes<T>);
    });
    follows.sums = follows.result = results;
  }
  for (std::int64_t image = 0; image < c.batch; ++image)
    for (std::int64_t first = 0; first < c.out_size[0]; first += wide.out_size[0]) {
      Convolution part = wide;
      part.out_size[0] = smaller_of(wide.out_size[0], c.out_size[0] - first);
      part.pad_low[0] -= first * c.stride[0];
      convolve_gemm(part, in + image * c.in_batch, filters, results, rest,
                    epilogue != nullptr && !later ? &follows : nullptr);
      T *const sums = out + image * c.out_batch + first * c.out_spatial[0];
      T *const to = epilogue != nullptr && !later ? epilogue->result + (sums - epilogue->sums) : sums;
      copy_lines(c, part, results, to, later ? epilogue : nullptr);
    }
}

/// Features for most of a vector: zeros fill the rest.
struct PaddedMethod : ConvolutionMethod {
  template <class T>
  static constexpr bool kFor = kIsFloat<T>;

  template <class T>
  static constexpr bool prefers(const Convolution &c) {
    return prefers_padded<T>(c);
  }

  template <class T>
  static constexpr std::size_t scratch(const Convolution &c) {
    return convolve_padded_scratch<T>(c);
  }

  template <class T>
  static void compute(const Convolution &c, const T *in, const T *kernel, T *out, void *scratch,
                      const Epilogue<T> *epilogue) {
    convolve_padded(c, in, kernel, out, scratch, epilogue);
  }

  template <class T>
  MODELWHEEL_COLD static constexpr bool same_bits(const Convolution &whole, const Convolution &part) {
    return is_dense(whole) || pieces_of<T>(whole).padded == pieces_of<T>(part).padded;
  }
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
