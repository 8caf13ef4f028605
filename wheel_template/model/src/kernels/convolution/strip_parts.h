// src/kernels/convolution/strip_parts.h - chains of convolutions in parts, for the threads of the caller.
//
// A part is some images, or some rows of the last result of one. Each computes the rows between the convolutions that
// it needs by itself: those around its ends are computed twice.
#pragma once

#include "kernels/convolution/parts.h"
#include "kernels/convolution/strips.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// How so many images are divided.
template <int Layers>
constexpr Division division_of(const Convolution (&c)[Layers], std::int64_t images, std::int64_t parts) {
  const std::int64_t rows = c[Layers - 1].out_size[0];
  if (images == 1) return {Along::kRows, rows, rows < 4 * parts ? rows : divide_up(rows, parts)};
  return {Along::kBatch, images, divides(images, parts) ? divide_up(images, parts) : images};
}

/// How a part is cut: in strips that are equally high, as far as possible, and no higher than those of the whole.
template <int Layers>
constexpr StripPlan<Layers> plan_of_part(const Convolution (&c)[Layers], const StripPlan<Layers> &whole,
                                         const StripRange &part) {
  const std::int64_t rows = length(part.rows);
  StripPlan<Layers> plan = plan_of_rows(c, divide_up(rows, divide_up(rows, whole.rows)));
  plan.images = smaller_of(whole.images, length(part.images));
  return plan;
}

/// Whether two arrays share memory.
template <class T>
bool overlap(const T *a, std::int64_t a_size, const T *b, std::int64_t b_size) {
  const auto first = reinterpret_cast<std::size_t>(a), second = reinterpret_cast<std::size_t>(b);
  return first < second + static_cast<std::size_t>(b_size) * sizeof(T) &&
         second < first + static_cast<std::size_t>(a_size) * sizeof(T);
}

/// The first images as `plan` says, in parts, each of which needs as much scratch memory. Rows of a result in place of
/// the input are computed in order.
template <class T, int Layers>
MODELWHEEL_NOINLINE void strips_in_parts(const Shared &shared, const Convolution (&c)[Layers],
                                         const StripPlan<Layers> &plan, std::int64_t images,
                                         const StripLayer<T> (&layers)[Layers], const T *in, T *out, void *scratch) {
  const Division division = division_of(c, images, larger_of(shared.parts(), std::int64_t{1}));
  const std::int64_t read = c[0].batch * c[0].in_batch, written = c[Layers - 1].batch * c[Layers - 1].out_batch;
  const Epilogue<T> *const epilogue = layers[Layers - 1].epilogue;
  const bool replaces =
      overlap<T>(in, read, out, written) || (epilogue != nullptr && overlap<T>(in, read, epilogue->result, written));
  const bool by_rows = division.along == Along::kRows;
  const StripRange whole = first_images(c, images);
  if (division.count() == 1 || (by_rows && replaces)) return strips_of_range(c, plan, layers, in, out, whole, scratch);
  shared.run(division.count(), [&](std::int64_t i, void *memory) {
    StripRange part = whole;
    (by_rows ? part.rows : part.images) = division.range(i);
    strips_of_range(c, plan_of_part(c, plan, part), layers, in, out, part, memory);
  });
}

/// The same as `strips`, in parts.
template <class T, int Layers>
void strips_in_parts(const Shared &shared, const Convolution (&c)[Layers], std::int64_t images,
                     const StripLayer<T> (&layers)[Layers], const T *in, T *out, void *scratch) {
  strips_in_parts(shared, c, strip_plan<T>(c), images, layers, in, out, scratch);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
