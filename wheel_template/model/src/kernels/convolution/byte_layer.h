// src/kernels/convolution/byte_layer.h - products and convolutions of 8-bit integers with straight-line code on their
// sums, such as that which makes bytes of them again.
//
// Sums of a block of rows are in scratch memory, from which the code reads them while they are in cache. The code is
// generated: a type `Code` with `kReads` and `kColumns`, and a function `at<Lanes, Count>(in, out, j)` that computes
// `Count` vectors of a row from column j on; in[0] are the sums, the others what `reads` has.
#pragma once

#include "kernels/convolution/byte_convolution.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/typed.h"
#include "kernels/gemm/dot.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Sums that code reads: `reads` and `write` are rows, in bytes.
template <class Code>
struct CodeSums {
  std::int32_t *block;
  const Plane<const char> *reads;
  Plane<char> write;
  static constexpr std::int64_t step_m = Code::kColumns, step_n = 1;

  std::int32_t *at(std::int64_t) const { return block; }

  /// `Count` vectors of columns at a time from column j on; returns where they end.
  template <int Lanes, int Count>
  static MODELWHEEL_INLINE std::int64_t columns(const char *const *in, char *out, std::int64_t j) {
    _Pragma("GCC unroll 1") for (; j + Lanes * Count <= Code::kColumns; j += Lanes * Count)
        Code::template at<Lanes, Count>(in, out, j);
    return j;
  }

  void finish(std::int64_t row, std::int64_t rows) const {
    constexpr int kVector = kLanes<float>, kQuarter = 16 / static_cast<int>(sizeof(float));
    constexpr int kCount = Code::kColumns % (2 * kVector) == 0 ? 2 : 1;
    for (std::int64_t i = 0; i < rows; ++i) {
      const char *in[Code::kReads + 1];
      in[0] = reinterpret_cast<const char *>(block + i * step_m);
      MODELWHEEL_UNROLL
      for (int k = 0; k < Code::kReads; ++k) in[k + 1] = reads[k].first + (row + i) * reads[k].step;
      char *const out = write.first + (row + i) * write.step;
      std::int64_t j = columns<kVector, kCount>(in, out, 0);
      if constexpr (kVector != kQuarter && Code::kColumns % kVector >= kQuarter) j = columns<kQuarter, 1>(in, out, j);
      if constexpr (Code::kColumns % kQuarter != 0) columns<1, 1>(in, out, j);
    }
  }
};

constexpr std::int64_t rows_of(const Dot &d) { return d.m; }
constexpr std::int64_t rows_of(const Convolution &c) { return count_outputs(c); }
constexpr std::int64_t depth_of(const Dot &d) { return d.k; }
constexpr std::int64_t depth_of(const Convolution &c) { return window_depth(c); }
constexpr std::int64_t columns_of(const Dot &d) { return d.n; }
constexpr std::int64_t columns_of(const Convolution &c) { return c.out_features; }

/// Rows of sums that are in scratch memory at a time.
constexpr std::int64_t rows_at_once(const Dot &d) { return byte_rows(d.m, d.k); }
constexpr std::int64_t rows_at_once(const Convolution &c) {
  if (c.groups > 1) return depthwise_lines(c) * axes_of(c).axis[kAxes - 1].out_size;
  return byte_rows(rows_of(c), depth_of(c));
}

constexpr std::size_t sums_scratch(const Dot &d) { return byte_scratch(d.m, d.k); }
constexpr std::size_t sums_scratch(const Convolution &c) {
  return byte_convolution_scratch<std::int8_t, std::int32_t>(c);
}

/// Bytes of scratch memory that `byte_layer` needs.
template <class Shape>
constexpr std::size_t byte_layer_scratch(const Shape &shape) {
  return sums_scratch(shape) + scratch_bytes<std::int32_t>(rows_at_once(shape) * columns_of(shape));
}

/// Computes sums and what follows them.
template <bool, class Sums>
void compute_sums(const Dot &d, std::int8_t, const std::int8_t *in, const std::int8_t *weights, const Sums &sums,
                  void *scratch) {
  multiply(MatrixRows{d.m, d.k, d.lhs_m, d.lhs_k, in}, d.n, d.panel, weights, sums, scratch);
}

/// Computes a layer: `Shape` is a Dot or a Convolution; see `byte_convolution`.
/// `scratch` has byte_layer_scratch(shape) bytes and is 64-byte aligned. What is written is apart from what is read.
template <class Code, bool kDepthwise, class Shape>
MODELWHEEL_NOINLINE void byte_layer(const Shape &shape, std::int8_t padding, const std::int8_t *in,
                                    const std::int8_t *kernel, const Plane<const char> *reads, Plane<char> write,
                                    void *scratch) {
  char *const memory = static_cast<char *>(scratch);
  const CodeSums<Code> sums{reinterpret_cast<std::int32_t *>(memory + sums_scratch(shape)), reads, write};
  compute_sums<kDepthwise>(shape, padding, in, kernel, sums, scratch);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
