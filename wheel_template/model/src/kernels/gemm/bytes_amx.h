// src/kernels/gemm/bytes_amx.h - packed rows of 8-bit integers by panels of weights, summed in the tiles of AMX.
//
// A panel is what the instruction reads: 16 rows of it are a tile of 64 elements of the inner dimension. A tile of lhs
// has 16 packed rows, which are read where they are if they are evenly spaced, as those of a matrix are, or windows of
// one line. Others are copied.
#pragma once

#include "kernels/base/amx.h"
#include "kernels/gemm/bytes_packed.h"

#if defined(__AVX512BW__)

namespace modelwheel::MODELWHEEL_LEVEL {

/// AMX: signed times signed, so that rows are packed as they are.
struct BytesAmx {
  using Left = std::int8_t;
  static constexpr bool kMoved = false;

  static MODELWHEEL_INLINE Left left(std::int8_t value) { return value; }
};

/// While there is one, the tiles of this thread are for runs of one length: whole steps of the inner dimension are in
/// tiles of 64 bytes, the rest of each run in tiles that are as short.
template <>
class PanelProduct<BytesAmx> {
  static constexpr std::int64_t kMostGroups = 8;

 public:
  static constexpr bool kInPlace = true;

  /// Rows whose sums are computed with one panel after another: pairs of tiles, which are more for long rows, as their
  /// weights are in no cache nearby.
  static constexpr std::int64_t rows(std::int64_t depth) {
    constexpr std::int64_t kShort = 768, kPair = 2 * kAmxRows;
    return smaller_of((1 + depth / kShort) * kPair, kMostGroups * kAmxRows);
  }

  /// Bytes of memory if so many rows may not be evenly spaced.
  static constexpr std::size_t scratch(std::int64_t uneven, std::int64_t depth) {
    return scratch_bytes<std::int8_t>(larger_of(divide_up(uneven, kAmxRows), std::int64_t{1}) * kAmxRows * depth);
  }

  PanelProduct(const Runs &runs, void *memory)
      : runs_(runs),
        panel_(byte_panel(runs.depth())),
        whole_(runs.length / kAmxBytes * kAmxBytes),
        rest_(runs.length % kAmxBytes),
        copies_(static_cast<std::int8_t *>(memory)),
        tiles_(shapes(rest_)) {}

  void run(const ByteRows<std::int8_t> &rows, std::int64_t m, const std::int8_t *panels, std::int64_t n) {
    Group groups[kMostGroups];
    const std::int64_t count = divide_up(m, kAmxRows);
    for (std::int64_t i = 0; i < count; ++i) groups[i] = group(rows, m, i);
    Columns columns{panels, n, rows.out, rows.out_m, rows.out_n};
    if (count == 1)
      while (columns.n > 3 * kPanel) next<1, 4>(groups, 1, columns);
    while (columns.n > kPanel) next<2, 2>(groups, count, columns);
    if (columns.n > 0) next<2, 1>(groups, count, columns);
  }

 private:
  // Tiles 0 to 3 are sums. The others are loaded again for each operand: the CPU renames them, so nothing waits.
  static constexpr int kLeft = 4, kRight = 5, kLeftRest = 6, kRightRest = 7;

  /// A tile of lhs: where its first row begins, the bytes from one row to the next, and those from one run of a row to
  /// the next; 0 if runs are where `Runs` says.
  struct Group {
    const std::int8_t *first;
    std::int64_t step, run_step;
    /// The first row, and how many there are.
    std::int64_t row, rows;
  };

  /// Panels from one on, and where the sums of their columns go.
  struct Columns {
    const std::int8_t *panels;
    std::int64_t n;
    std::int32_t *out;
    std::int64_t out_m, out_n;
  };

  static AmxShapes shapes(std::int64_t rest) {
    AmxShapes all;
    for (int tile = 0; tile <= kRight; ++tile) all.set(tile, kAmxRows, kAmxBytes);
    if (rest > 0) {
      all.set(kLeftRest, kAmxRows, rest);
      all.set(kRightRest, static_cast<int>(rest / kQuad), kAmxBytes);
    }
    return all;
  }

  /// 16 packed rows of m: the last ones may be among those before, too.
  Group group(const ByteRows<std::int8_t> &rows, std::int64_t m, std::int64_t i) const {
    const std::int64_t row = smaller_of(i * kAmxRows, larger_of(m - kAmxRows, std::int64_t{0}));
    const std::int64_t count = smaller_of(m, std::int64_t{kAmxRows});
    const std::int8_t *const *const begins = rows.lhs + row;
    bool even = count == kAmxRows;
    for (int j = 2; even && j < kAmxRows; ++j) even = begins[j] - begins[j - 1] == begins[1] - begins[0];
    if (even) return {begins[0], begins[1] - begins[0], 0, row, count};
    const std::int64_t depth = runs_.depth();
    std::int8_t *const first = copies_ + i * kAmxRows * depth;
    for (std::int64_t j = 0; j < count; ++j)
      for (std::int64_t r = 0; r < runs_.count; ++r)
        pack_run<BytesAmx>(begins[j] + runs_.offsets[r], runs_.length, first + j * depth + r * runs_.length);
    return {first, depth, runs_.length, row, count};
  }

  const std::int8_t *run_of(const Group &group, std::int64_t r) const {
    return group.first + (group.run_step == 0 ? runs_.offsets[r] : r * group.run_step);
  }

  /// The next `Panels` panels of all groups, two or `Groups` of them at a time.
  template <int Groups, int Panels>
  void next(const Group *groups, std::int64_t count, Columns &columns) const {
    std::int64_t i = 0;
    for (; i + Groups <= count; i += Groups) multiply<Groups, Panels>(groups + i, columns);
    if constexpr (Groups > 1)
      if (i < count) multiply<1, Panels>(groups + i, columns);
    columns.panels += Panels * panel_;
    columns.out += Panels * kPanel * columns.out_n;
    columns.n -= Panels * kPanel;
  }

  /// Up to four tiles of sums.
  template <int Groups, int Panels>
  MODELWHEEL_NOINLINE void multiply(const Group *groups, const Columns &columns) const {
    zero_tile<0>(), zero_tile<1>(), zero_tile<2>(), zero_tile<3>();
    const std::int8_t *right = columns.panels + byte_panel(0);
    for (std::int64_t r = 0; r < runs_.count; ++r) {
      const std::int8_t *left[Groups];
      for (int i = 0; i < Groups; ++i) left[i] = run_of(groups[i], r);
      const auto next = [&](std::int64_t bytes) {
        for (int i = 0; i < Groups; ++i) left[i] += bytes;
        right += bytes * kPanel;
      };
      for (std::int64_t k = 0; k < whole_; k += kAmxBytes, next(kAmxBytes))
        add<Groups, Panels, kLeft, kRight>(groups, left, right);
      if (rest_ > 0) add<Groups, Panels, kLeftRest, kRightRest>(groups, left, right), next(rest_);
    }
    store<0, 0, Panels>(groups[0], columns);
    if constexpr (Groups > 1) store<Panels, 0, Panels>(groups[1], columns);
  }

  template <int Groups, int Panels, int Left, int Right>
  MODELWHEEL_INLINE void add(const Group *groups, const std::int8_t *const *left, const std::int8_t *right) const {
    load_tile<Left>(left[0], groups[0].step);
    add_panel<0, Left, Right>(right);
    if constexpr (Panels > 1) add_panel<1, Left, Right>(right + panel_);
    if constexpr (Panels > 2) add_panel<2, Left, Right>(right + 2 * panel_);
    if constexpr (Panels > 3) add_panel<3, Left, Right>(right + 3 * panel_);
    if constexpr (Groups > 1) {
      load_tile<Left>(left[1], groups[1].step);
      if constexpr (Panels > 1) add_byte_products<Panels + 1, Left, Right>();
      if constexpr (Panels > 1) load_tile<Right>(right, kAmxBytes);
      add_byte_products<Panels, Left, Right>();
    }
  }

  template <int Sums, int Left, int Right>
  static MODELWHEEL_INLINE void add_panel(const std::int8_t *right) {
    load_tile<Right>(right, kAmxBytes);
    add_byte_products<Sums, Left, Right>();
  }

  /// Tiles of sums from one on, of panel `At` and those after it.
  template <int Sums, int At, int Panels>
  MODELWHEEL_INLINE void store(const Group &group, const Columns &columns) const {
    std::int32_t *const out = columns.out + group.row * columns.out_m + At * kPanel * columns.out_n;
    const std::int64_t stored = smaller_of(columns.n - At * kPanel, std::int64_t{kPanel});
    if (stored == kPanel && group.rows == kAmxRows && columns.out_n == 1) {
      store_tile<Sums>(out, columns.out_m * static_cast<std::int64_t>(sizeof *out));
    } else {
      alignas(64) std::int32_t sums[kAmxRows][kPanel];
      store_tile<Sums>(sums, sizeof *sums);
      for (std::int64_t i = 0; i < group.rows; ++i)
        for (std::int64_t j = 0; j < stored; ++j) out[i * columns.out_m + j * columns.out_n] = sums[i][j];
    }
    if constexpr (At + 1 < Panels) store<Sums + 1, At + 1, Panels>(group, columns);
  }

  const Runs runs_;
  const std::int64_t panel_, whole_, rest_;
  std::int8_t *const copies_;
  const AmxTiles tiles_;
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
#endif
