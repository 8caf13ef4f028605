// src/kernels/gemm/kernels.h - the kernels of matrix products that a library has.
//
// There are some dozens of tiles for each level, of which a model needs a few. Kernels call each other by functions
// that the generated code defines (uses.h): what these do not call, the linker leaves out. They are no tables of
// pointers, which would hide from the audit what runs on which level.
#pragma once

#include "kernels/base/shuffle.h"
#include "kernels/elementwise/epilogue.h"
#include "kernels/gemm/shape.h"

namespace modelwheel::MODELWHEEL_LEVEL {

template <class T>
struct Strip;
template <class T>
struct Run;
template <class T>
struct LargeTile;

/// Largest tile: accumulators, one row of rhs vectors and a broadcast fit the registers.
inline constexpr int kTileRows = kVectorRegisters == 32 ? 8 : 6;
inline constexpr int kTileVectors = kVectorRegisters == 32 ? 4 : 2;
/// A single row takes more vectors, to have enough independent sums in flight.
inline constexpr int kRowVectors = 8;

/// Rows and most vectors of a tile of a run of rows: its sums and one row of rhs vectors fit the registers.
inline constexpr int kRunRows = kVectorRegisters == 32 ? 8 : 6;
inline constexpr int kMostRunVectors = kVectorRegisters == 32 ? 3 : 2;
/// How a strip of a run is computed: in tiles as high as possible, the same while later results are fetched, or with
/// last tiles that have one row less. The others may be lower too, by a row for each number from kShorterTiles on. Of
/// one vector all tiles have one height, a row less than possible or more.
enum RunTiles { kWholeTiles, kFetchingTiles, kShorterTiles, kRunTiles = kShorterTiles + kRunRows - 1 };

/// Most rows of a tile of gemm_large, and fewest if all have as many as possible.
inline constexpr int kLargeRows = kVectorRegisters == 32 ? 13 : 6;
inline constexpr int kLeastLargeRows = (kLargeRows + 1) / 2;

/// Most panels that gemm_vector reads together: as many as have enough independent sums in flight.
inline constexpr int kMostPanels = larger_of(kRowVectors * kVectorBytes / static_cast<int>(sizeof(float) * kPanel), 1);

/// Vectors have all the elements that they can have, or half of them.
inline constexpr int kWidths = 2;
template <class T, int Lanes>
inline constexpr int kWidthOf = Lanes == kLanes<T> ? 0 : 1;

/// Ways to compute a product; halves have vectors half as wide.
enum GemmForm { kLargeForm, kNarrowForm, kVectorForm, kRunForm, kHalfRunForm, kWideForm, kHalfWideForm, kGemmForms };

/// Which kernels are used; numbers are those of the arguments of GemmCalls.
struct GemmUses {
  bool form[kGemmForms];
  /// By vectors and rows.
  bool tile[kWidths][kTileVectors][kTileRows];
  /// One row of kRowVectors vectors.
  bool row;
  bool strip[kWidths][kMostRunVectors][kRunTiles];
  /// By rows, from kLeastLargeRows on.
  bool large_tile[kLargeRows - kLeastLargeRows + 1];
  bool panels[kMostPanels];
};

/// What kernels call; MODELWHEEL_GEMM_CALLS defines it.
template <class T>
struct GemmCalls {
  static void form(int form, const Gemm &, const T *lhs, const T *rhs, T *out, T *scratch, const Epilogue<T> *);
  static void tile(int width, int vectors, int rows, const Strip<T> &, const T *const *lhs, T *const *out);
  static void strip(int width, int vectors, int tiles, const Strip<T> &, const Run<T> &);
  static void large_tile(int rows, const LargeTile<T> &);
  static void panels(int panels, const Gemm &, const T *lhs, const T *rhs, T *out, std::int64_t column,
                     const Epilogue<T> *);
};

/// A kernel that was not found to be used: to end is better than to compute nothing.
[[noreturn]] MODELWHEEL_INLINE void call_missing() { __builtin_trap(); }

// Sources that are compiled by themselves (MODELWHEEL_ELEMENT) have the definitions of these, gemm.cpp all that
// may be called. Elsewhere they are declared only, so that the generated code is compiled quickly.

template <class T, int Lanes, int Rows, int Vectors>
void tile(const Strip<T> &strip, const T *const *lhs, T *const *out);
template <class T, int Lanes, int Vectors, int Tiles>
void strips_of_run(const Strip<T> &given, const Run<T> &all);
template <class T, int Rows>
void large_tile(const LargeTile<T> &t);
template <class T, int Panels>
void columns_of_row(const Gemm &g, const T *lhs, const T *rhs, T *out, std::int64_t column,
                    const Epilogue<T> *epilogue);
template <class T, int Lanes>
void run_lanes(const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch, const Epilogue<T> *epilogue);
template <class T, int Lanes>
void gemm_lanes(const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch, const Epilogue<T> *epilogue);
template <class T>
void gemm_large(const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch, const Epilogue<T> *epilogue);
template <class T>
void gemm_narrow(const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch, const Epilogue<T> *epilogue);
template <class T>
void gemm_vector(const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch, const Epilogue<T> *epilogue);

}  // namespace modelwheel::MODELWHEEL_LEVEL
