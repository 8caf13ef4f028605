// src/kernels/base/amx.h - Intel AMX: a thread has eight tiles of at most 16 rows of 64 bytes.
//
// Instructions are written as bytes with fixed registers, as assemblers before binutils 2.35 do not know them. Only
// what has asked for AMX may run them (base/asked.h).
#pragma once

#include "kernels/base/level.h"

#if defined(__AVX512BW__)

namespace modelwheel::MODELWHEEL_LEVEL {

inline constexpr int kAmxRows = 16, kAmxBytes = 64;

/// The shapes of tiles, as LDTILECFG reads them.
struct AmxShapes {
  std::uint8_t palette = 1, first_row = 0, unused[14] = {};
  std::uint16_t bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, int tile_rows, std::int64_t row_bytes) {
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    bytes[tile] = static_cast<std::uint16_t>(row_bytes);
  }
};
static_assert(sizeof(AmxShapes) == 64);

/// While there is one, the tiles of this thread have shapes; afterwards they are not in use, so that switching threads
/// saves nothing.
class AmxTiles {
 public:
  explicit AmxTiles(const AmxShapes &shapes) {
    asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" : : "a"(&shapes) : "memory");  // ldtilecfg [rax]
  }
  ~AmxTiles() { asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0" : : : "memory"); }  // tilerelease
  AmxTiles(const AmxTiles &) = delete;
  AmxTiles &operator=(const AmxTiles &) = delete;
};

template <int Tile>
MODELWHEEL_INLINE void zero_tile() {
  asm volatile(".byte 0xc4, 0xe2, 0x7b, 0x49, %c0" : : "i"(0xc0 | Tile << 3));  // tilezero
}

/// Rows are `step` bytes apart.
template <int Tile>
MODELWHEEL_INLINE void load_tile(const void *from, std::int64_t step) {
  // tileloadd tmm, [rax + rcx]
  asm volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, %c0, 0x08" : : "i"(0x04 | Tile << 3), "a"(from), "c"(step) : "memory");
}

template <int Tile>
MODELWHEEL_INLINE void store_tile(void *to, std::int64_t step) {
  // tilestored [rax + rcx], tmm
  asm volatile(".byte 0xc4, 0xe2, 0x7a, 0x4b, %c0, 0x08" : : "i"(0x04 | Tile << 3), "a"(to), "c"(step) : "memory");
}

/// Adds products of signed bytes to sums of 32 bits: each row of a tile by a tile that has four neighbours of each
/// column together.
template <int Sums, int Left, int Right>
MODELWHEEL_INLINE void add_byte_products() {
  // tdpbssd
  asm volatile(".byte 0xc4, 0xe2, %c0, 0x5e, %c1" : : "i"(0x03 | (15 - Right) << 3), "i"(0xc0 | Sums << 3 | Left));
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
#endif
