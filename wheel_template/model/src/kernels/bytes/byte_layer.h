// src/kernels/bytes/byte_layer.h - products and convolutions of 8-bit integers with straight-line code on their
// sums, such as that which makes bytes of them again.
//
// Sums of a block of rows are in scratch memory, from which the code reads them while they are in cache. The code is
// generated: a type `Code` with `kReads` and `kColumns`, and a function `at<Lanes, Count>(in, out, j)` that computes
// `Count` vectors of a row from column j on; in[0] are the sums, the others what `reads` has.
#pragma once

#include "kernels/bytes/byte_convolution.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/typed.h"
#include "kernels/gemm/dot.h"
#include "kernels/parts/shared.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Sums that code reads: `reads` and `write` are rows, in bytes.
template <class Code>
struct CodeSums {
  std::int32_t *block;
  const Plane<const char> *reads;
  Plane<char> write;
  /// Sums from one row to the next, of which there may be no more than are computed together.
  std::int64_t step_m = Code::kColumns;
  static constexpr std::int64_t step_n = 1;

  CodeSums with_step(std::int64_t step) const { return {block, reads, write, step}; }
  std::int32_t *at(std::int64_t, std::int64_t column) const { return block + column; }

  /// `Count` vectors of columns at a time from column j on; returns where they end.
  template <int Lanes, int Count>
  static MODELWHEEL_INLINE std::int64_t columns(const char *const *in, char *out, std::int64_t j, std::int64_t end) {
    _Pragma("GCC unroll 1") for (; j + Lanes * Count <= end; j += Lanes * Count)
        Code::template at<Lanes, Count>(in, out, j);
    return j;
  }

  /// Ranges of columns begin where two vectors do (`byte_division`), and end there or with the last column.
  void finish(std::int64_t row, std::int64_t rows, Range part) const {
    constexpr int kVector = kLanes<float>, kQuarter = 16 / static_cast<int>(sizeof(float));
    constexpr int kCount = Code::kColumns % (2 * kVector) == 0 ? 2 : 1;
    for (std::int64_t i = 0; i < rows; ++i) {
      const char *in[Code::kReads + 1];
      in[0] = reinterpret_cast<const char *>(block + i * step_m);
      MODELWHEEL_UNROLL
      for (int k = 0; k < Code::kReads; ++k) in[k + 1] = reads[k].first + (row + i) * reads[k].step;
      char *const out = write.first + (row + i) * write.step;
      [[maybe_unused]] std::int64_t j = columns<kVector, kCount>(in, out, part.begin, part.end);
      if constexpr (kVector != kQuarter && Code::kColumns % kVector >= kQuarter)
        j = columns<kQuarter, 1>(in, out, j, part.end);
      if constexpr (Code::kColumns % kQuarter != 0) columns<1, 1>(in, out, j, part.end);
    }
  }
};

constexpr std::int64_t rows_of(const Dot &d) { return d.m; }
constexpr std::int64_t rows_of(const Convolution &c) { return count_outputs(c); }
constexpr std::int64_t depth_of(const Dot &d) { return d.k; }
constexpr std::int64_t depth_of(const Convolution &c) { return packed_depth(c); }
constexpr std::int64_t columns_of(const Dot &d) { return d.n; }
constexpr std::int64_t columns_of(const Convolution &c) { return c.out_features; }

/// Sums that are in scratch memory at a time.
constexpr std::int64_t sums_at_once(const Dot &d) { return byte_rows(d.m, d.k) * d.n; }
constexpr std::int64_t sums_at_once(const Convolution &c) {
  return c.groups > 1 ? depthwise_sums(c) : byte_rows(rows_of(c), depth_of(c)) * columns_of(c);
}

constexpr std::size_t sums_scratch(const Dot &d) { return byte_scratch(d.m, d.k); }
constexpr std::size_t sums_scratch(const Convolution &c) {
  return byte_convolution_scratch<std::int8_t, std::int32_t>(c);
}

/// Bytes of scratch memory that `byte_layer` needs.
template <class Shape>
constexpr std::size_t byte_layer_scratch(const Shape &shape) {
  return sums_scratch(shape) + scratch_bytes<std::int32_t>(sums_at_once(shape));
}

constexpr Division byte_division(const Dot &d, std::int64_t parts) {
  return byte_division(d.m, d.n, 1, d.panel != 0, parts);
}

/// Computes some sums and what follows them.
template <bool, class Sums>
void compute_sums(const Dot &d, const ByteRange &range, std::int8_t, const std::int8_t *in, const std::int8_t *weights,
                  const Sums &sums, void *scratch) {
  multiply(MatrixRows{d.m, d.k, d.lhs_m, d.lhs_k, in}, range, d.panel, weights, sums, scratch);
}

/// Some rows and columns of a layer.
template <class Code, bool kDepthwise, class Shape>
void byte_layer_range(const Shape &shape, const ByteRange &range, std::int8_t padding, const std::int8_t *in,
                      const std::int8_t *kernel, const Plane<const char> *reads, Plane<char> write, void *scratch) {
  char *const memory = static_cast<char *>(scratch);
  const CodeSums<Code> sums{reinterpret_cast<std::int32_t *>(memory + sums_scratch(shape)), reads, write};
  compute_sums<kDepthwise>(shape, range, padding, in, kernel, sums, scratch);
}

/// Computes a layer: `Shape` is a Dot or a Convolution; see `byte_convolution`.
/// `scratch` has byte_layer_scratch(shape) bytes and is 64-byte aligned. What is written is apart from what is read.
template <class Code, bool kDepthwise, class Shape>
MODELWHEEL_NOINLINE void byte_layer(const Shape &shape, std::int8_t padding, const std::int8_t *in,
                                    const std::int8_t *kernel, const Plane<const char> *reads, Plane<char> write,
                                    void *scratch) {
  const ByteRange all{{0, rows_of(shape)}, {0, columns_of(shape)}};
  byte_layer_range<Code, kDepthwise>(shape, all, padding, in, kernel, reads, write, scratch);
}

/// The same in parts, each of which has byte_layer_scratch(shape) bytes too.
template <class Code, bool kDepthwise, class Shape>
MODELWHEEL_NOINLINE void byte_layer_in_parts(const Shared &shared, const Shape &shape, std::int8_t padding,
                                             const std::int8_t *in, const std::int8_t *kernel,
                                             const Plane<const char> *reads, Plane<char> write, void *scratch) {
  const Division division = byte_division(shape, larger_of(shared.parts(), std::int64_t{1}));
  if (division.count() == 1) return byte_layer<Code, kDepthwise>(shape, padding, in, kernel, reads, write, scratch);
  shared.run(division.count(), [&](std::int64_t i, void *memory) {
    const ByteRange range = range_of(division, rows_of(shape), columns_of(shape), i);
    byte_layer_range<Code, kDepthwise>(shape, range, padding, in, kernel, reads, write, memory);
  });
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
