// panels.h - weights of 8-bit integers as modelwheel packs them.
#pragma once

#include "kernels/gemm/bytes.h"
#include "random.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Weights [k, n], by rows, as modelwheel packs them: runs of `run` rows are filled by themselves.
inline Buffer<std::int8_t> packed(const Buffer<std::int8_t> &weights, std::int64_t k, std::int64_t n,
                                  std::int64_t run) {
  const std::int64_t size = byte_panel(k / run * padded_depth(run));
  Buffer<std::int8_t> panels(divide_up(n, kPanel) * size);
  std::memset(panels.data(), 0, static_cast<std::size_t>(panels.size()));
  for (std::int64_t j = 0; j < n; ++j) {
    std::int8_t *const panel = panels.data() + j / kPanel * size;
    std::int32_t moved = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t at = i / run * padded_depth(run) + i % run;
      moved -= 128 * weights[i * n + j];
      panel[kPanel * 4 + (at / kQuad * kPanel + j % kPanel) * kQuad + at % kQuad] = weights[i * n + j];
    }
    std::memcpy(panel + j % kPanel * 4, &moved, sizeof moved);
  }
  return panels;
}

inline Buffer<std::int8_t> packed(const Buffer<std::int8_t> &weights, std::int64_t k, std::int64_t n) {
  return packed(weights, k, n, larger_of(k, std::int64_t{1}));
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
