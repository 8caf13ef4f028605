// panels.h - weights of 8-bit integers as modelwheel packs them.
#pragma once

#include "kernels/gemm/bytes.h"
#include "random.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Weights [k, n], by rows, as modelwheel packs them.
inline Buffer<std::int8_t> packed(const Buffer<std::int8_t> &weights, std::int64_t k, std::int64_t n) {
  Buffer<std::int8_t> panels(divide_up(n, kPanel) * byte_panel(k));
  std::memset(panels.data(), 0, static_cast<std::size_t>(panels.size()));
  for (std::int64_t j = 0; j < n; ++j) {
    std::int8_t *const panel = panels.data() + j / kPanel * byte_panel(k);
    std::int32_t moved = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      moved -= 128 * weights[i * n + j];
      panel[kPanel * 4 + (i / kQuad * kPanel + j % kPanel) * kQuad + i % kQuad] = weights[i * n + j];
    }
    std::memcpy(panel + j % kPanel * 4, &moved, sizeof moved);
  }
  return panels;
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
