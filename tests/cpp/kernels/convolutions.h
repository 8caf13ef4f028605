// convolutions.h - drawn convolutions, and whether results are what XLA's definition says.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "check.h"
#include "epilogues.h"
#include "kernels/convolution/convolution.h"
#include "kernels/parts/first_rows.h"
#include "methods.h"
#include "random.h"
#include "ranges.h"
#include "reference.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Where the elements of an array [batch, feature, spatial...] lie.
struct Layout {
  std::int64_t batch, feature, spatial[3];
  std::int64_t elements;
};

/// A layout in the given order of axes, slowest first: 0 is batch, 1 feature, 2.. spatial.
inline Layout lay_out(std::int64_t batch, std::int64_t features, const std::int64_t *sizes, std::int64_t rank,
                      const int *order, std::int64_t gap) {
  Layout layout{0, 0, {0, 0, 0}, 0};
  std::int64_t step = 1, last = 0;
  bool empty = false;
  for (std::int64_t i = rank + 1; i >= 0; --i) {
    const int axis = order[i];
    const std::int64_t size = axis == 0 ? batch : axis == 1 ? features : sizes[axis - 2];
    (axis == 0 ? layout.batch : axis == 1 ? layout.feature : layout.spatial[axis - 2]) = step;
    empty = empty || size == 0;
    last += (size - 1) * step;
    step = step * size + gap;
  }
  layout.elements = empty ? 0 : last + 1;
  return layout;
}

/// Features last, as TensorFlow has it, in so many of 100 cases, or any other order.
inline Layout random_layout(Random &random, std::int64_t batch, std::int64_t features, const std::int64_t *sizes,
                            std::int64_t rank, bool kernel, int usual_chance) {
  int order[5];
  std::int64_t count = 0;
  if (!kernel) order[count++] = 0;
  for (int axis = 0; axis < rank; ++axis) order[count++] = axis + 2;
  if (kernel) order[count++] = 0;
  order[count++] = 1;
  const bool usual = random.chance(usual_chance);
  if (!usual)
    for (std::int64_t i = rank + 1; i > 0; --i) {
      const std::int64_t j = random.integer(0, i);
      const int swapped = order[i];
      order[i] = order[j];
      order[j] = swapped;
    }
  return lay_out(batch, features, sizes, rank, order, !usual && random.chance(30) ? random.integer(1, 3) : 0);
}

inline void copy3(std::int64_t *to, const std::int64_t *from) { std::memcpy(to, from, 3 * sizeof *to); }

/// Fills in the strides; in_size, kernel_size, out_size and the numbers of features are given.
struct Problem {
  Convolution c;
  std::int64_t in_elements, kernel_elements, out_elements;
};

inline Problem with_layouts(Random &random, Convolution c, int usual = 60) {
  const std::int64_t in_group = c.in_features / c.groups;
  const Layout in = random_layout(random, c.batch, c.in_features, c.in_size, c.rank, false, usual);
  const Layout kernel = random_layout(random, in_group, c.out_features, c.kernel_size, c.rank, true, usual);
  const Layout out = random_layout(random, c.batch, c.out_features, c.out_size, c.rank, false, usual);
  c.in_batch = in.batch;
  c.in_feature = in.feature;
  copy3(c.in_spatial, in.spatial);
  c.kernel_in = kernel.batch;
  c.kernel_out = kernel.feature;
  copy3(c.kernel_spatial, kernel.spatial);
  c.out_batch = out.batch;
  c.out_feature = out.feature;
  copy3(c.out_spatial, out.spatial);
  return {c, in.elements, kernel.elements, out.elements};
}

/// The input index under a tap, or -1: the window slides over the dilated and padded input.
inline std::int64_t input_index(const Convolution &c, int axis, std::int64_t out, std::int64_t tap) {
  const std::int64_t dilated = out * c.stride[axis] + tap * c.kernel_dilation[axis] - c.pad_low[axis];
  if (dilated < 0 || dilated > (c.in_size[axis] - 1) * c.base_dilation[axis]) return -1;
  return dilated % c.base_dilation[axis] == 0 ? dilated / c.base_dilation[axis] : -1;
}

/// The indices that a number stands for, last axis fastest.
struct Indices {
  std::int64_t at[3] = {};
  Indices(std::int64_t number, std::int64_t rank, const std::int64_t *sizes) {
    for (std::int64_t axis = rank - 1; axis >= 0; --axis) {
      at[axis] = number % sizes[axis];
      number /= sizes[axis];
    }
  }
};

inline std::int64_t product(const std::int64_t *sizes, std::int64_t rank) {
  std::int64_t result = 1;
  for (std::int64_t axis = 0; axis < rank; ++axis) result *= sizes[axis];
  return result;
}

/// One element of the result by the definition.
template <class T>
bool matches(const Convolution &c, const Buffer<T> &in, const Buffer<T> &kernel, std::int64_t image,
             std::int64_t feature, const Indices &place, T value) {
  typename ReferenceOf<T, T>::type sum;
  const std::int64_t in_group = c.in_features / c.groups, group = feature / (c.out_features / c.groups);
  for (std::int64_t number = 0; number < product(c.kernel_size, c.rank); ++number) {
    const Indices tap(number, c.rank, c.kernel_size);
    std::int64_t in_at = image * c.in_batch + group * in_group * c.in_feature, kernel_at = feature * c.kernel_out;
    bool inside = true;
    for (int axis = 0; axis < c.rank; ++axis) {
      const std::int64_t index = input_index(c, axis, place.at[axis], tap.at[axis]);
      inside = inside && index >= 0;
      in_at += index * c.in_spatial[axis];
      kernel_at += (c.reversed[axis] ? c.kernel_size[axis] - 1 - tap.at[axis] : tap.at[axis]) * c.kernel_spatial[axis];
    }
    for (std::int64_t f = 0; inside && f < in_group; ++f)
      sum.add(in[in_at + f * c.in_feature], kernel[kernel_at + f * c.kernel_in]);
  }
  return sum.matches(value);
}

inline void describe(const Convolution &c, std::int64_t wrong) {
  std::printf("convolution batch %lld groups %lld features %lld -> %lld: %lld wrong\n", static_cast<long long>(c.batch),
              static_cast<long long>(c.groups), static_cast<long long>(c.in_features),
              static_cast<long long>(c.out_features), static_cast<long long>(wrong));
  for (int axis = 0; axis < c.rank; ++axis)
    std::printf("  in %lld kernel %lld out %lld stride %lld pad %lld dilation %lld base %lld reversed %d\n",
                static_cast<long long>(c.in_size[axis]), static_cast<long long>(c.kernel_size[axis]),
                static_cast<long long>(c.out_size[axis]), static_cast<long long>(c.stride[axis]),
                static_cast<long long>(c.pad_low[axis]), static_cast<long long>(c.kernel_dilation[axis]),
                static_cast<long long>(c.base_dilation[axis]), static_cast<int>(c.reversed[axis]));
}

/// Parts of a convolution have its bits.
template <class T>
void check_parts(Random &random, const Convolution &c, const Buffer<T> &in, const Buffer<T> &kernel,
                 const Buffer<T> &out) {
  Buffer<T> parts(out.size());
  Buffer<char> scratch(static_cast<std::int64_t>(convolution_scratch<T>(c)));
  const OneThread thread(random, [&c](std::int64_t most) { return convolution_part_scratch<T>(c, most); });
  convolution_in_parts<T>(thread.shared(), c, in.data(), kernel.data(), parts.data(), scratch.data());
  check_same_bits(out, parts);
}

/// So have its first images, whatever their number, in memory for all of them or for one.
template <class T>
void check_first_images(Random &random, const Convolution &c, const Buffer<T> &in, const Buffer<T> &kernel,
                        const Buffer<T> &out) {
  if (c.batch < 2) return;
  const auto first = [&c](std::int64_t rows) { return first_rows(c, &Convolution::batch, c.batch, rows); };
  const std::size_t bytes = larger_of(convolution_scratch<T>(c), convolution_scratch<T>(first(1)));
  for (const std::int64_t more : {2, 3, 7, 16, 64}) {
    Convolution larger = c;
    larger.batch = more * c.batch;
    const std::size_t enough = larger_of(convolution_scratch<T>(larger), convolution_scratch<T>(first(1)));
    CHECK(same_bits<T>(larger, c) && convolution_scratch<T>(c) <= enough);
  }
  const Convolution some = first(random.integer(1, c.batch - 1));
  CHECK(same_bits<T>(c, some) && convolution_scratch<T>(some) <= bytes);
  Buffer<T> again(out.size());
  std::memcpy(again.data(), out.data(), static_cast<std::size_t>(out.size()) * sizeof(T));
  if (again.size() > 0) again[0] = T{};  // of the first image, wherever the others are
  Buffer<char> scratch(static_cast<std::int64_t>(bytes));
  convolution<T>(some, in.data(), kernel.data(), again.data(), scratch.data());
  check_same_bits(out, again);
}

/// So have ranges of any kind.
template <class T>
void check_ranges(Random &random, const Convolution &c, const Buffer<T> &in, const Buffer<T> &kernel,
                  const Buffer<T> &out) {
  const std::int64_t axis = random.integer(0, has_columns(c) ? 2 : 1);
  Buffer<T> parts(out.size());
  const std::int64_t size = axis == 0 ? c.batch : axis == 1 ? c.out_size[0] : c.out_features;
  const std::int64_t unit = c.panel != 0 && axis == 2 ? kPanel : 1;
  const bool complete = in_ranges(random, size / unit, [&](Range units) {
    const Range r{units.begin * unit, units.end * unit};
    const Ranged<Convolution> part = axis == 0 ? batch_range(c, r) : axis == 1 ? row_range(c, r) : column_range(c, r);
    if (!same_bits<T>(c, part.shape)) return false;
    CHECK(method_of<T>(part.shape) == method_of<T>(c));
    Buffer<char> scratch(static_cast<std::int64_t>(convolution_scratch<T>(part.shape)));
    convolution<T>(part.shape, in.data() + part.left, kernel.data() + part.right, parts.data() + part.out,
                   scratch.data());
    return true;
  });
  if (complete) check_same_bits(out, parts);
}

/// Compares every `every`-th element of a result with the definition.
template <class T>
void check_result(const Convolution &c, const Buffer<T> &in, const Buffer<T> &kernel, const Buffer<T> &out,
                  std::int64_t every) {
  std::int64_t wrong = 0;
  const std::int64_t places = product(c.out_size, c.rank);
  for (std::int64_t number = 0; number < c.batch * c.out_features * places; number += every) {
    const std::int64_t feature = number % c.out_features, place = number / c.out_features % places;
    const std::int64_t image = number / c.out_features / places;
    const Indices at(place, c.rank, c.out_size);
    std::int64_t out_at = image * c.out_batch + feature * c.out_feature;
    for (int axis = 0; axis < c.rank; ++axis) out_at += at.at[axis] * c.out_spatial[axis];
    if (!matches(c, in, kernel, image, feature, at, out[out_at])) ++wrong;
  }
  if (wrong != 0) describe(c, wrong);
  CHECK(wrong == 0);
}

/// The same convolution with its kernel in panels, if that may be.
inline void check_packed(Random &random, const Convolution &c, const Buffer<float> &in, const Buffer<float> &kernel,
                         const Buffer<float> &out, std::int64_t every) {
  Convolution packed = c;
  std::int64_t rows = c.in_features, step = c.out_features * c.in_features;
  bool dense = c.groups == 1 && c.out_features % kPanel == 0 && c.kernel_out == 1 && c.kernel_in == c.out_features;
  packed.kernel_in = kPanel;
  for (std::int64_t axis = c.rank - 1; axis >= 0; --axis) {
    dense = dense && c.kernel_spatial[axis] == step;
    packed.kernel_spatial[axis] = rows * kPanel;
    step *= c.kernel_size[axis];
    rows *= c.kernel_size[axis];
  }
  if (!dense || c.out_features == 0) return;
  packed.panel = rows * kPanel;
  Buffer<float> panels(rows * c.out_features), again(out.size());
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t j = 0; j < c.out_features; ++j)
      panels[j / kPanel * packed.panel + row * kPanel + j % kPanel] = kernel[row * c.out_features + j];
  Buffer<char> scratch(static_cast<std::int64_t>(convolution_scratch<float>(packed)));
  convolution<float>(packed, in.data(), panels.data(), again.data(), scratch.data());
  check_result(c, in, kernel, again, every);
  check_ranges(random, packed, in, panels, again);
  check_parts(random, packed, in, panels, again);
  check_first_images(random, packed, in, panels, again);
}

/// Computes a convolution and compares every `every`-th element of the result.
template <class T>
void check(Random &random, const Problem &problem, std::int64_t every = 1, bool special = false) {
  const Convolution &c = problem.c;
  Buffer<T> in(problem.in_elements), kernel(problem.kernel_elements), out(problem.out_elements);
  in.fill(random);
  if constexpr (kHasGemm<T>) {
    const T values[] = {static_cast<T>(NAN), static_cast<T>(INFINITY), static_cast<T>(-INFINITY)};
    if (special) in[random.integer(0, in.size() - 1)] = random.pick(values);
  }
  kernel.fill(random);
  Buffer<char> scratch(static_cast<std::int64_t>(convolution_scratch<T>(c)));
  convolution<T>(c, in.data(), kernel.data(), out.data(), scratch.data());
  check_result(c, in, kernel, out, every);
  if constexpr (kHasGemm<T> && sizeof(T) == sizeof(float)) check_packed(random, c, in, kernel, out, every);
  check_ranges(random, c, in, kernel, out);
  if constexpr (kHasGemm<T>) {
    check_parts(random, c, in, kernel, out);
    check_first_images(random, c, in, kernel, out);
    if (!special && c.out_feature == 1 &&
        problem.out_elements == c.batch * c.out_features * product(c.out_size, c.rank))
      check_epilogues(random, c, in.data(), kernel.data(), out);
  }
}

/// Number of outputs that fit, with padding at both ends, or 0.
inline std::int64_t outputs(std::int64_t in, std::int64_t base_dilation, std::int64_t pads, std::int64_t kernel,
                            std::int64_t dilation, std::int64_t stride) {
  const std::int64_t room = (in - 1) * base_dilation + 1 + pads - ((kernel - 1) * dilation + 1);
  return room < 0 ? 0 : room / stride + 1;
}

/// Random windows; every property is plain more often than not.
inline void draw_windows(Random &random, Convolution &c, std::int64_t largest, bool dilated_input) {
  for (int axis = 0; axis < 3; ++axis) {
    c.in_size[axis] = c.kernel_size[axis] = c.out_size[axis] = 1;
    c.stride[axis] = c.kernel_dilation[axis] = c.base_dilation[axis] = 1;
  }
  for (int axis = 0; axis < c.rank; ++axis) {
    do {
      c.in_size[axis] = random.integer(1, largest);
      c.kernel_size[axis] = random.integer(1, random.chance(20) ? 7 : 4);
      c.stride[axis] = random.chance(60) ? 1 : random.integer(2, 4);
      c.kernel_dilation[axis] = random.chance(70) ? 1 : random.integer(2, 3);
      c.base_dilation[axis] = !dilated_input || random.chance(30) ? 1 : random.integer(2, 4);
      c.reversed[axis] = random.chance(25);
      c.pad_low[axis] = random.chance(30) ? 0 : random.integer(-2, 5);
      const std::int64_t pads = c.pad_low[axis] + (random.chance(30) ? 0 : random.integer(-2, 5));
      c.out_size[axis] = outputs(c.in_size[axis], c.base_dilation[axis], pads, c.kernel_size[axis],
                                 c.kernel_dilation[axis], c.stride[axis]);
    } while (c.out_size[axis] == 0);
  }
}

/// A convolution with the same window along each axis, padded so that stride 1 keeps the size.
inline Convolution same_size(std::int64_t batch, std::int64_t in_features, std::int64_t out_features, std::int64_t rank,
                             std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  Convolution c{};
  c.batch = batch;
  c.groups = 1;
  c.in_features = in_features;
  c.out_features = out_features;
  c.rank = rank;
  for (int axis = 0; axis < 3; ++axis) {
    const bool used = axis < rank;
    c.in_size[axis] = used ? size : 1;
    c.kernel_size[axis] = used ? kernel : 1;
    c.stride[axis] = used ? stride : 1;
    c.kernel_dilation[axis] = c.base_dilation[axis] = 1;
    c.pad_low[axis] = used ? pad : 0;
    c.out_size[axis] = used ? outputs(size, 1, 2 * pad, kernel, 1, stride) : 1;
  }
  return c;
}

/// A convolution in which each feature has its own filter.
inline Convolution depthwise(Convolution c) {
  c.groups = c.in_features = c.out_features;
  return c;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
