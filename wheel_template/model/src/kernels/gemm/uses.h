// src/kernels/gemm/uses.h - which kernels matrix products of a model use, found when its generated code is compiled.
//
// What is asked here follows the loops of the kernels: both divide a product by the same functions. A test runs
// products of all kinds and compares what they call.
#pragma once

#include "kernels/gemm/dot.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Calls each(flag, flag) for the flags of both.
template <class Each>
constexpr void for_uses(GemmUses &a, const GemmUses &b, const Each &each) {
  for (int form = 0; form < kGemmForms; ++form) each(a.form[form], b.form[form]);
  each(a.row, b.row);
  for (int width = 0; width < kWidths; ++width) {
    for (int vectors = 0; vectors < kTileVectors; ++vectors)
      for (int rows = 0; rows < kTileRows; ++rows) each(a.tile[width][vectors][rows], b.tile[width][vectors][rows]);
    for (int vectors = 0; vectors < kMostRunVectors; ++vectors)
      for (int tiles = 0; tiles < kRunTiles; ++tiles)
        each(a.strip[width][vectors][tiles], b.strip[width][vectors][tiles]);
  }
  for (int rows = 0; rows <= kLargeRows - kLeastLargeRows; ++rows) each(a.large_tile[rows], b.large_tile[rows]);
  for (int panels = 0; panels < kMostPanels; ++panels) each(a.panels[panels], b.panels[panels]);
}

/// What several products use.
template <int Count>
constexpr GemmUses all_uses(const GemmUses (&some)[Count]) {
  GemmUses all{};
  for (const GemmUses &one : some) for_uses(all, one, [](bool &a, bool b) { a = a || b; });
  return all;
}

/// Every kernel.
constexpr GemmUses every_use() {
  GemmUses all{};
  for_uses(all, all, [](bool &a, bool) { a = true; });
  return all;
}

/// Every kernel but those of uneven tiles: what products use that are known only when they run.
constexpr GemmUses common_uses() {
  GemmUses common = every_use();
  for (int width = 0; width < kWidths; ++width)
    for (int vectors = 1; vectors <= kMostRunVectors; ++vectors)
      for (int tiles = 0; tiles < kRunTiles; ++tiles)
        if (is_uneven(vectors, tiles)) common.strip[width][vectors - 1][tiles] = false;
  return common;
}

/// Strips of gemm_wide over some rows.
template <class T, int Lanes>
constexpr void add_wide_rows(const Gemm &g, std::int64_t rows, bool packed, GemmUses &uses) {
  if (rows <= 0) return;
  for (std::int64_t done = 0; done < g.n;) {
    const Columns columns = next_columns<T, Lanes>(done, g.n, widest_strip(g, rows, packed));
    if (columns.vectors == kRowVectors) {
      uses.row = true;
    } else {
      const std::int64_t tiles = tiles_of_rows(columns.vectors, rows);
      bool (&by_rows)[kTileRows] = uses.tile[kWidthOf<T, Lanes>][columns.vectors - 1];
      by_rows[rows / tiles - 1] = by_rows[divide_up(rows, tiles) - 1] = true;
    }
    done = columns.first + smaller_of(columns.last + Lanes, g.n);
  }
}

template <class T, int Lanes>
constexpr void add_wide(const Gemm &g, GemmUses &uses) {
  const std::int64_t rows = num_rows(g);
  const bool packed = worth_packing<T, Lanes>(g, rows);
  const std::int64_t together = rows_together<T>(g, rows, packed);
  add_wide_rows<T, Lanes>(g, smaller_of(rows, together), packed, uses);
  add_wide_rows<T, Lanes>(g, rows % together, packed, uses);
}

/// Strips of so many vectors and rows of gemm_run.
constexpr void add_strip(int width, int vectors, std::int64_t rows, bool windows, bool fetches, GemmUses &uses) {
  uses.strip[width][vectors - 1][run_tiles(vectors, rows, windows, fetches)] = true;
}

/// With `in_place`, rows after the tiles of a run are computed by themselves.
template <class T, int Lanes>
constexpr void add_run(const Gemm &g, bool in_place, GemmUses &uses) {
  constexpr int kWidth = kWidthOf<T, Lanes>;
  const std::int64_t last = rows_of_last_run<T>(g);
  const bool windows = has_windows(g);
  for (std::int64_t done = 0; done < g.n;) {
    const Columns columns = run_columns<T, Lanes>(done, g.n);
    const std::int64_t after = last % (columns.vectors == 1 ? kTallRows : kRunRows);
    add_strip(kWidth, columns.vectors, last, windows, false, uses);
    if (last < g.rows[kRowAxes - 1].count)
      add_strip(kWidth, columns.vectors, rows_of_run<T>(g), windows, run_fetches<T, Lanes>(g), uses);
    if (in_place && after > 0 && (columns.vectors == 1 || shorter_tiles(last) == 0)) {
      uses.strip[kWidth][columns.vectors - 1][kWholeTiles] = true;
      bool (&by_rows)[kTileRows] = uses.tile[kWidth][columns.vectors - 1];
      by_rows[(after - 1) % kRunRows] = true;
      if (after > kRunRows) by_rows[kRunRows - 1] = true;
    }
    done = columns.first + columns.last + Lanes;
  }
}

constexpr void add_large(const Gemm &g, GemmUses &uses) {
  const std::int64_t rows = num_rows(g), groups = divide_up(rows, large_rows(g.num_segments * g.depth));
  const std::int64_t counts[] = {rows / groups, divide_up(rows, groups)};
  for (const std::int64_t count : counts) {
    const std::int64_t tiles = divide_up(count, kLargeRows);
    uses.large_tile[count / tiles - kLeastLargeRows] = true;
    uses.large_tile[divide_up(count, tiles) - kLeastLargeRows] = true;
  }
}

constexpr void add_vector(const Gemm &g, GemmUses &uses) {
  for (std::int64_t column = 0; column < g.n;) {
    const std::int64_t panels = panels_from(column, g.n);
    uses.panels[panels - 1] = true;
    column += panels * kPanel;
  }
}

/// What `gemm` calls. With `in_place`, the result may replace what is added to it.
template <class T>
constexpr void add_gemm(const Gemm &g, bool in_place, GemmUses &uses) {
  const GemmForm form = form_of<T>(g);
  uses.form[form] = true;
  if (form == kLargeForm) add_large(g, uses);
  if (form == kVectorForm) add_vector(g, uses);
  if (form == kRunForm) add_run<T, kLanes<T>>(g, in_place, uses);
  if (form == kHalfRunForm) add_run<T, kHalfLanes<T>>(g, in_place, uses);
  if (form == kWideForm) add_wide<T, kLanes<T>>(g, uses);
  if (form == kHalfWideForm) add_wide<T, kHalfLanes<T>>(g, uses);
}

/// What `dot` calls.
template <class T>
constexpr void add_dot(const Dot &d, bool in_place, GemmUses &uses) {
  const Dot form = oriented<T>(d);
  Gemm g = gemm_of(form, nullptr);
  g.n = whole_columns(form);
  add_gemm<T>(g, in_place, uses);
  if (g.n == form.n) return;
  g.n = kPanel;
  g.out_n = 1;
  g.rows[kRowAxes - 2].count = 1;
  const std::int64_t counts[] = {smaller_of(form.m, kLastPanelRows), form.m % kLastPanelRows};
  for (const std::int64_t rows : counts) {
    g.rows[kRowAxes - 1].count = rows;
    if (rows > 0) add_gemm<T>(g, false, uses);
  }
}

template <class T>
constexpr GemmUses dot_uses(const Dot &d, bool in_place) {
  GemmUses uses{};
  add_dot<T>(d, in_place, uses);
  return uses;
}

/// Calls one of the tiles of so many vectors that are used, of at most so many rows.
template <class T, int Lanes, const GemmUses &kUses, int Vectors, int Rows = tile_rows(Vectors)>
MODELWHEEL_INLINE void call_tile_rows(int rows, const Strip<T> &strip, const T *const *lhs, T *const *out) {
  if constexpr (kUses.tile[kWidthOf<T, Lanes>][Vectors - 1][Rows - 1])
    if (rows == Rows) return tile<T, Lanes, Rows, Vectors>(strip, lhs, out);
  if constexpr (Rows > 1)
    call_tile_rows<T, Lanes, kUses, Vectors, Rows - 1>(rows, strip, lhs, out);
  else
    call_missing();
}

/// Whether some flag is set.
template <int Count>
constexpr bool any_of(const bool (&flags)[Count]) {
  for (const bool flag : flags)
    if (flag) return true;
  return false;
}

/// Calls one of the tiles that are used, of at most so many vectors.
template <class T, int Lanes, const GemmUses &kUses, int Vectors = kMaxVectors<T, Lanes>>
MODELWHEEL_INLINE void call_tile(int vectors, int rows, const Strip<T> &strip, const T *const *lhs, T *const *out) {
  if constexpr (any_of(kUses.tile[kWidthOf<T, Lanes>][Vectors - 1]))
    if (vectors == Vectors) return call_tile_rows<T, Lanes, kUses, Vectors>(rows, strip, lhs, out);
  if constexpr (Vectors > 1)
    call_tile<T, Lanes, kUses, Vectors - 1>(vectors, rows, strip, lhs, out);
  else
    call_missing();
}

template <class T, const GemmUses &kUses, int Rows = kLargeRows>
MODELWHEEL_INLINE void call_large_tile(int rows, const LargeTile<T> &t) {
  if constexpr (kHasPanels<T> && kUses.large_tile[Rows - kLeastLargeRows])
    if (rows == Rows) return large_tile<T, Rows>(t);
  if constexpr (Rows > kLeastLargeRows)
    call_large_tile<T, kUses, Rows - 1>(rows, t);
  else
    call_missing();
}

template <class T, const GemmUses &kUses, int Panels = kMostPanels>
MODELWHEEL_INLINE void call_panels(int panels, const Gemm &g, const T *lhs, const T *rhs, T *out, std::int64_t column,
                                   const Epilogue<T> *epilogue) {
  if constexpr (kHasPanels<T> && kUses.panels[Panels - 1])
    if (panels == Panels) return columns_of_row<T, Panels>(g, lhs, rhs, out, column, epilogue);
  if constexpr (Panels > 1)
    call_panels<T, kUses, Panels - 1>(panels, g, lhs, rhs, out, column, epilogue);
  else
    call_missing();
}

/// GemmCalls that call the kernels that are used, and no others.
template <class T, const GemmUses &kUses>
struct LinkedCalls {
  static MODELWHEEL_INLINE void form(int form, const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch,
                                     const Epilogue<T> *epilogue) {
    constexpr const bool (&kUsed)[kGemmForms] = kUses.form;
    if constexpr (kHasPanels<T> && kUsed[kLargeForm])
      if (form == kLargeForm) return gemm_large(g, lhs, rhs, out, scratch, epilogue);
    if constexpr (kUsed[kNarrowForm])
      if (form == kNarrowForm) return gemm_narrow(g, lhs, rhs, out, scratch, epilogue);
    if constexpr (kHasPanels<T> && kUsed[kVectorForm])
      if (form == kVectorForm) return gemm_vector(g, lhs, rhs, out, scratch, epilogue);
    if constexpr (kUsed[kRunForm])
      if (form == kRunForm) return run_lanes<T, kLanes<T>>(g, lhs, rhs, out, scratch, epilogue);
    if constexpr (kUsed[kHalfRunForm])
      if (form == kHalfRunForm) return run_lanes<T, kHalfLanes<T>>(g, lhs, rhs, out, scratch, epilogue);
    if constexpr (kUsed[kWideForm])
      if (form == kWideForm) return gemm_lanes<T, kLanes<T>>(g, lhs, rhs, out, scratch, epilogue);
    if constexpr (kUsed[kHalfWideForm])
      if (form == kHalfWideForm) return gemm_lanes<T, kHalfLanes<T>>(g, lhs, rhs, out, scratch, epilogue);
    call_missing();
  }

  static MODELWHEEL_INLINE void tile(int width, int vectors, int rows, const Strip<T> &strip, const T *const *lhs,
                                     T *const *out) {
    if constexpr (kUses.row)
      if (vectors == kRowVectors)
        return modelwheel::MODELWHEEL_LEVEL::tile<T, kLanes<T>, 1, kRowVectors>(strip, lhs, out);
    if constexpr (kHalfLanes<T> != kLanes<T>)
      if (width != 0) return call_tile<T, kHalfLanes<T>, kUses>(vectors, rows, strip, lhs, out);
    call_tile<T, kLanes<T>, kUses>(vectors, rows, strip, lhs, out);
  }

  static MODELWHEEL_INLINE void strip(int width, int vectors, int tiles, const Strip<T> &strip, const Run<T> &run) {
    if constexpr (kHalfLanes<T> != kLanes<T>)
      if (width != 0) return call_strip<T, kHalfLanes<T>, kUses>(vectors, tiles, strip, run);
    call_strip<T, kLanes<T>, kUses>(vectors, tiles, strip, run);
  }

  static MODELWHEEL_INLINE void large_tile(int rows, const LargeTile<T> &t) { call_large_tile<T, kUses>(rows, t); }

  static MODELWHEEL_INLINE void panels(int panels, const Gemm &g, const T *lhs, const T *rhs, T *out,
                                       std::int64_t column, const Epilogue<T> *epilogue) {
    call_panels<T, kUses>(panels, g, lhs, rhs, out, column, epilogue);
  }
};

/// Defines the calls of kernels for elements T, as a class like LinkedCalls has them.
#define MODELWHEEL_GEMM_CALLS(T, ...)                                                                                \
  template <>                                                                                                        \
  void GemmCalls<T>::form(int form, const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch,                   \
                          const Epilogue<T> *epilogue) {                                                             \
    __VA_ARGS__::form(form, g, lhs, rhs, out, scratch, epilogue);                                                    \
  }                                                                                                                  \
  template <>                                                                                                        \
  void GemmCalls<T>::tile(int width, int vectors, int rows, const Strip<T> &s, const T *const *lhs, T *const *out) { \
    __VA_ARGS__::tile(width, vectors, rows, s, lhs, out);                                                            \
  }                                                                                                                  \
  template <>                                                                                                        \
  void GemmCalls<T>::strip(int width, int vectors, int tiles, const Strip<T> &s, const Run<T> &run) {                \
    __VA_ARGS__::strip(width, vectors, tiles, s, run);                                                               \
  }                                                                                                                  \
  template <>                                                                                                        \
  void GemmCalls<T>::large_tile(int rows, const LargeTile<T> &t) {                                                   \
    __VA_ARGS__::large_tile(rows, t);                                                                                \
  }                                                                                                                  \
  template <>                                                                                                        \
  void GemmCalls<T>::panels(int panels, const Gemm &g, const T *lhs, const T *rhs, T *out, std::int64_t column,      \
                            const Epilogue<T> *epilogue) {                                                           \
    __VA_ARGS__::panels(panels, g, lhs, rhs, out, column, epilogue);                                                 \
  }

}  // namespace modelwheel::MODELWHEEL_LEVEL
