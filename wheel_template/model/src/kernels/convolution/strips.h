// src/kernels/convolution/strips.h - convolutions of each other's results, some rows of an image at a time.
//
// Each convolution reads what the one before it wrote while that is still in the second-level cache (Alwani et al.,
// "Fused-layer CNN accelerators", MICRO 2016). Rows are positions along the first spatial axis. Rows that the windows
// of the next strip reach too stay where they are needed, so that nothing is computed twice.
#pragma once

#include <cstring>

#include "kernels/convolution/convolution.h"
#include "kernels/convolution/ranges.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// The operands of one convolution of a chain.
template <class T>
struct StripLayer {
  const T *kernel;
  /// May be null. Only the last one has `sums`, `result` and perhaps an `addend`, which begin where the result does.
  const Epilogue<T> *epilogue;
};

/// Most bytes of the results between the convolutions of a strip: half of a common second-level cache.
inline constexpr std::int64_t kStripBytes = 512 * 1024;

/// How a chain is cut: several images, or some rows of the last result of one image.
template <int Layers>
struct StripPlan {
  std::int64_t images, rows;
  /// Most rows of each result that a strip needs.
  std::int64_t room[Layers];
};

/// Elements of one row of a result.
constexpr std::int64_t row_elements(const Convolution &c) {
  std::int64_t product = c.out_features;
  for (std::int64_t axis = 1; axis < c.rank; ++axis) product *= c.out_size[axis];
  return product;
}

/// Rows of the input that the windows of some rows of outputs reach; the next one if they see padding alone.
constexpr Range rows_read(const Convolution &c, Range out) {
  const Range r = input_range(axes_of(c).axis[kAxes - c.rank], out);
  const std::int64_t begin = smaller_of(larger_of(r.begin, std::int64_t{0}), c.in_size[0] - 1);
  return {begin, larger_of(smaller_of(r.end, c.in_size[0]), begin + 1)};
}

/// A plan for strips of so many rows.
template <int Layers>
constexpr StripPlan<Layers> plan_of_rows(const Convolution (&c)[Layers], std::int64_t rows) {
  StripPlan<Layers> plan{1, rows, {}};
  plan.room[Layers - 1] = rows;
  for (int i = Layers - 1; i > 0; --i) {
    const std::int64_t spanned =
        (plan.room[i] - 1) * c[i].stride[0] + (c[i].kernel_size[0] - 1) * c[i].kernel_dilation[0];
    plan.room[i - 1] = smaller_of(spanned + 1, c[i].in_size[0]);
  }
  return plan;
}

/// Bytes of the results between the convolutions, for each image.
template <class T, int Layers>
constexpr std::int64_t bytes_between(const Convolution (&c)[Layers], const StripPlan<Layers> &plan) {
  std::int64_t bytes = 0;
  for (int i = 0; i + 1 < Layers; ++i)
    bytes += plan.room[i] * row_elements(c[i]) * static_cast<std::int64_t>(sizeof(T));
  return bytes;
}

template <class T, int Layers>
constexpr StripPlan<Layers> strip_plan(const Convolution (&c)[Layers]) {
  const std::int64_t end = c[Layers - 1].out_size[0];
  std::int64_t rows = end;
  while (rows > 1 && bytes_between<T>(c, plan_of_rows(c, rows)) > kStripBytes) --rows;
  // Strips are equally high, as far as possible.
  if (rows < end) return plan_of_rows(c, divide_up(end, divide_up(end, rows)));
  StripPlan<Layers> plan = plan_of_rows(c, end);
  const std::int64_t fitting = kStripBytes / larger_of(bytes_between<T>(c, plan), std::int64_t{1});
  plan.images = larger_of(smaller_of(fitting, c[0].batch), std::int64_t{1});
  return plan;
}

/// Bytes of scratch memory that `strips` needs.
template <class T, int Layers>
constexpr std::size_t strips_scratch(const Convolution (&c)[Layers], const StripPlan<Layers> &plan) {
  std::size_t between = 0, convolutions = 0;
  for (int i = 0; i < Layers; ++i) {
    if (i + 1 < Layers) between += scratch_bytes<T>(plan.images * plan.room[i] * row_elements(c[i]));
    convolutions = larger_of(convolutions, convolution_scratch<T, true>(c[i]));
  }
  return between + convolutions;
}

template <class T, int Layers>
constexpr std::size_t strips_scratch(const Convolution (&c)[Layers]) {
  return strips_scratch<T>(c, strip_plan<T>(c));
}

/// The same convolution with as few axes of more than one element as possible, if each output has the features of one
/// input: then all its rows are one run.
constexpr Convolution with_joined_rows(Convolution c) {
  if (c.groups != 1) return c;
  for (std::int64_t axis = 0; axis < c.rank; ++axis)
    if (c.kernel_size[axis] != 1 || c.stride[axis] != 1 || c.pad_low[axis] != 0 || c.in_size[axis] != c.out_size[axis])
      return c;
  const std::int64_t last = c.rank - 1;
  const auto follows = [&](std::int64_t in_step, std::int64_t out_step) {
    return in_step == c.in_size[last] * c.in_spatial[last] && out_step == c.out_size[last] * c.out_spatial[last];
  };
  const auto join = [&](std::int64_t &in, std::int64_t &out) {
    c.in_size[last] *= in;
    c.out_size[last] *= out;
    in = out = 1;
  };
  for (std::int64_t axis = last - 1; axis >= 0; --axis)
    if (follows(c.in_spatial[axis], c.out_spatial[axis])) join(c.in_size[axis], c.out_size[axis]);
  std::int64_t images = c.batch;
  if (follows(c.in_batch, c.out_batch)) join(c.batch, images);
  return c;
}

/// Some rows of a result in memory, of one or several images that are `batch` elements apart.
template <class T>
struct StripRows {
  T *data;
  Range rows;
  std::int64_t batch;
};

/// Computes rows of some images. `in` has at least those that their windows reach, `out` those that are computed.
template <class T>
void convolve_rows(const Convolution &c, const StripLayer<T> &layer, std::int64_t images, const StripRows<const T> &in,
                   const StripRows<T> &out, void *scratch, const Epilogue<T> *epilogue) {
  const Range source = rows_read(c, out.rows);
  Convolution part = row_range(c, out.rows).shape;
  part.batch = images;
  part.in_size[0] = length(source);
  part.pad_low[0] += source.begin;
  part.in_batch = in.batch;
  part.out_batch = out.batch;
  const T *from = in.data + (source.begin - in.rows.begin) * c.in_spatial[0];
  direct_convolution<T>(with_joined_rows(part), from, layer.kernel, out.data, scratch, epilogue);
}

/// Drops the rows before `first`; returns how many are left.
template <class T>
std::int64_t keep_rows(StripRows<T> &between, std::int64_t first, std::int64_t row) {
  const std::int64_t kept = length({first, between.rows.end});
  if (kept > 0)
    std::memmove(between.data, between.data + (first - between.rows.begin) * row,
                 static_cast<std::size_t>(kept * row) * sizeof(T));
  return kept;
}

/// Computes rows of the last result of some images; `out` is where they begin. `between` has the results of the others,
/// perhaps with rows of the strip before.
template <class T, int Layers>
void convolve_strip(const Convolution (&c)[Layers], const StripLayer<T> (&layers)[Layers], std::int64_t images,
                    const StripRows<const T> &in, StripRows<T> (&between)[Layers], const StripRows<T> &out,
                    const Epilogue<T> *epilogue, void *scratch) {
  Range wanted[Layers];
  wanted[Layers - 1] = out.rows;
  for (int i = Layers - 1; i > 0; --i) wanted[i - 1] = rows_read(c[i], wanted[i]);
  StripRows<const T> source = in;
  for (int i = 0; i + 1 < Layers; ++i) {
    StripRows<T> &held = between[i];
    const std::int64_t row = row_elements(c[i]), kept = keep_rows(held, wanted[i].begin, row);
    held.rows = wanted[i];
    const StripRows<T> next{held.data + kept * row, {wanted[i].begin + kept, wanted[i].end}, held.batch};
    if (length(next.rows) > 0) {
      Epilogue<T> follows{};
      if (layers[i].epilogue != nullptr) {
        follows = *layers[i].epilogue;
        follows.sums = follows.result = next.data;
      }
      convolve_rows(c[i], layers[i], images, source, next, scratch, layers[i].epilogue != nullptr ? &follows : nullptr);
    }
    source = {held.data, held.rows, held.batch};
  }
  convolve_rows(c[Layers - 1], layers[Layers - 1], images, source, out, scratch, epilogue);
}

/// Some rows of the last result of some images.
struct StripRange {
  Range images, rows;
};

/// Computes a range of the last result as `plan` says; see below. `in` and `out` are where the whole arrays begin.
template <class T, int Layers>
MODELWHEEL_NOINLINE void strips_of_range(const Convolution (&c)[Layers], const StripPlan<Layers> &plan,
                                         const StripLayer<T> (&layers)[Layers], const T *in, T *out,
                                         const StripRange &range, void *scratch) {
  const Convolution &first = c[0], &last = c[Layers - 1];
  const Epilogue<T> *whole = layers[Layers - 1].epilogue;
  Scratch memory(scratch);
  StripRows<T> between[Layers];
  for (int i = 0; i + 1 < Layers; ++i) {
    between[i].batch = plan.room[i] * row_elements(c[i]);
    between[i].data = memory.take<T>(plan.images * between[i].batch);
  }
  void *const rest = memory.take<T>(0);
  for (std::int64_t image = range.images.begin; image < range.images.end; image += plan.images) {
    const std::int64_t images = smaller_of(plan.images, range.images.end - image);
    const StripRows<const T> source{in + image * first.in_batch, {0, first.in_size[0]}, first.in_batch};
    for (int i = 0; i + 1 < Layers; ++i) between[i].rows = {0, 0};
    for (std::int64_t y = range.rows.begin; y < range.rows.end; y += plan.rows) {
      const Range rows{y, smaller_of(y + plan.rows, range.rows.end)};
      const std::int64_t at = image * last.out_batch + y * row_elements(last);
      Epilogue<T> follows{};
      if (whole != nullptr) {
        follows = *whole;
        follows.sums += at;
        follows.result += at;
        if (follows.addend != nullptr) follows.addend += at;
      }
      convolve_strip(c, layers, images, source, between, {out + at, rows, last.out_batch},
                     whole != nullptr ? &follows : nullptr, rest);
    }
  }
}

/// The first images of the last result.
template <int Layers>
constexpr StripRange first_images(const Convolution (&c)[Layers], std::int64_t images) {
  return {{0, images}, {0, c[Layers - 1].out_size[0]}};
}

/// Computes convolutions of each other's results for the first images, without the memory between them. The output of
/// each has the sizes of the next one's input; all are dense with the features last, and no input is dilated. The
/// result may be in place of the input if both have the same rows and no window begins after the row that it is for.
/// `scratch` has strips_scratch<T>(c) bytes and is 64-byte aligned.
template <class T, int Layers>
void strips(const Convolution (&c)[Layers], std::int64_t images, const StripLayer<T> (&layers)[Layers], const T *in,
            T *out, void *scratch) {
  strips_of_range(c, strip_plan<T>(c), layers, in, out, first_images(c, images), scratch);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
