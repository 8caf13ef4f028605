// src/kernels/gemm/bytes_isa.h - sums of four products of 8-bit integers with the instructions of a level.
//
// All give the same sums, modulo 2^32: none saturates. VNNI is not part of any level, so CPUs of x86-64-v4 are asked
// for it, as for AMX, which is in bytes_amx.h.
#pragma once

#include <cstring>

#include "kernels/base/asked.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace modelwheel::MODELWHEEL_LEVEL {

/// Consecutive elements of the inner dimension that an instruction multiplies: those of a column are neighbours.
inline constexpr int kQuad = 4;

// Each of these has: `Left`, an element of lhs as it is packed, from an 8-bit integer; `Sums`, a vector of sums of
// kColumns columns, kParts neighbouring lanes of which are added up in the end; `Quads`, kColumns columns of weights;
// `Row`, four elements of a row for all columns. Tiles have kRows rows of kPanels panels, kFewRows of two, or kOneRows
// of one. `joined` adds up the parts of two vectors, if there are two of each sum. `kMoved` says that lhs is moved by
// 128, to be unsigned: then sums start with what a panel has for that.

#if defined(__AVX512BW__)
/// AVX512-VNNI: unsigned times signed. The instruction is written as assembly, as the compiler may use it nowhere else.
struct BytesVnni {
  using Left = std::uint8_t;
  using Sums = __m512i;
  using Quads = __m512i;
  using Row = __m512i;
  static constexpr int kColumns = 16, kParts = 1;
  static constexpr int kRows = 6, kFewRows = 8, kOneRows = 12, kPanels = 4;
  static constexpr bool kMoved = true;

  static MODELWHEEL_INLINE Left left(std::int8_t value) {
    return static_cast<Left>(static_cast<std::uint8_t>(value) ^ 0x80U);
  }
  static MODELWHEEL_INLINE Sums start(const std::int8_t *sums) { return _mm512_loadu_si512(sums); }
  static MODELWHEEL_INLINE Quads quads(const std::int8_t *from) { return _mm512_loadu_si512(from); }
  static MODELWHEEL_INLINE Row row(const Left *from) {
    std::int32_t four;
    std::memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
  }
  static MODELWHEEL_INLINE void add(Sums &sums, Row row, Quads quads) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(row), "v"(quads));
  }
  static MODELWHEEL_INLINE void store(std::int32_t *to, Sums sums) { _mm512_storeu_si512(to, sums); }
};
#endif

#if defined(__x86_64__)
/// Products of pairs of 16-bit integers, whose sums fit into 32 bits.
struct BytesPairs {
  using Left = std::int16_t;
#if defined(__AVX512BW__)
  using Sums = __m512i;
  static MODELWHEEL_INLINE Sums start(const std::int8_t *) { return _mm512_setzero_si512(); }
  static MODELWHEEL_INLINE Sums quads(const std::int8_t *from) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)));
  }
  static MODELWHEEL_INLINE Sums repeat(std::int64_t four) { return _mm512_set1_epi64(four); }
  static MODELWHEEL_INLINE void add(Sums &sums, Sums row, Sums quads) {
    sums = _mm512_add_epi32(sums, _mm512_madd_epi16(row, quads));
  }
  static MODELWHEEL_INLINE void store(std::int32_t *to, Sums sums) { _mm512_storeu_si512(to, sums); }
  static MODELWHEEL_INLINE Sums joined(Sums a, Sums b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_add_epi32(_mm512_permutex2var_epi32(a, even, b), _mm512_permutex2var_epi32(a, odd, b));
  }
  static constexpr int kColumns = 8, kRows = 6, kOneRows = 6, kPanels = 2;
#elif defined(__AVX2__)
  using Sums = __m256i;
  static MODELWHEEL_INLINE Sums start(const std::int8_t *) { return _mm256_setzero_si256(); }
  static MODELWHEEL_INLINE Sums quads(const std::int8_t *from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
  }
  static MODELWHEEL_INLINE Sums repeat(std::int64_t four) { return _mm256_set1_epi64x(four); }
  static MODELWHEEL_INLINE void add(Sums &sums, Sums row, Sums quads) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(row, quads));
  }
  static MODELWHEEL_INLINE void store(std::int32_t *to, Sums sums) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), sums);
  }
  static MODELWHEEL_INLINE Sums joined(Sums a, Sums b) {
    const __m256 x = _mm256_castsi256_ps(a), y = _mm256_castsi256_ps(b);
    const __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88));
    const __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xDD));
    return _mm256_permute4x64_epi64(_mm256_add_epi32(even, odd), 0xD8);
  }
  static constexpr int kColumns = 4, kRows = 3, kOneRows = kRows, kPanels = 1;
#else
  using Sums = __m128i;
  static MODELWHEEL_INLINE Sums start(const std::int8_t *) { return _mm_setzero_si128(); }
  static MODELWHEEL_INLINE Sums quads(const std::int8_t *from) {
    const Sums bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(from));
    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
  }
  static MODELWHEEL_INLINE Sums repeat(std::int64_t four) { return _mm_set1_epi64x(four); }
  static MODELWHEEL_INLINE void add(Sums &sums, Sums row, Sums quads) {
    sums = _mm_add_epi32(sums, _mm_madd_epi16(row, quads));
  }
  static MODELWHEEL_INLINE void store(std::int32_t *to, Sums sums) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), sums);
  }
  static MODELWHEEL_INLINE Sums joined(Sums a, Sums b) {
    const __m128 x = _mm_castsi128_ps(a), y = _mm_castsi128_ps(b);
    const __m128i even = _mm_castps_si128(_mm_shuffle_ps(x, y, 0x88));
    const __m128i odd = _mm_castps_si128(_mm_shuffle_ps(x, y, 0xDD));
    return _mm_add_epi32(even, odd);
  }
  static constexpr int kColumns = 2, kRows = 1, kOneRows = kRows, kPanels = 1;
#endif
  using Quads = Sums;
  using Row = Sums;
  static constexpr int kParts = 2;
  static constexpr bool kMoved = false;

  static MODELWHEEL_INLINE Left left(std::int8_t value) { return value; }
  static MODELWHEEL_INLINE Row row(const Left *from) {
    std::int64_t four;
    std::memcpy(&four, from, sizeof four);
    return repeat(four);
  }
};
using Bytes = BytesPairs;

#elif defined(__aarch64__)
/// Dot products of four, or products of eight whose neighbours are added as 32 bits.
struct BytesNeon {
  using Left = std::int8_t;
  using Sums = int32x4_t;
#if defined(__ARM_FEATURE_DOTPROD)
  using Quads = int8x16_t;
  static MODELWHEEL_INLINE Quads quads(const std::int8_t *from) { return vld1q_s8(from); }
  static MODELWHEEL_INLINE Quads repeat(std::int32_t four) { return vreinterpretq_s8_s32(vdupq_n_s32(four)); }
  static MODELWHEEL_INLINE void add(Sums &sums, Quads row, Quads quads) { sums = vdotq_s32(sums, row, quads); }
  static constexpr int kColumns = 4, kParts = 1, kRows = 6;
#else
  using Quads = int8x8_t;
  static MODELWHEEL_INLINE Quads quads(const std::int8_t *from) { return vld1_s8(from); }
  static MODELWHEEL_INLINE Quads repeat(std::int32_t four) { return vreinterpret_s8_s32(vdup_n_s32(four)); }
  static MODELWHEEL_INLINE void add(Sums &sums, Quads row, Quads quads) {
    sums = vpadalq_s16(sums, vmull_s8(row, quads));
  }
  static MODELWHEEL_INLINE Sums joined(Sums a, Sums b) { return vpaddq_s32(a, b); }
  static constexpr int kColumns = 2, kParts = 2, kRows = 3;
#endif
  using Row = Quads;
  static constexpr int kOneRows = kRows, kPanels = 1;
  static constexpr bool kMoved = false;

  static MODELWHEEL_INLINE Left left(std::int8_t value) { return value; }
  static MODELWHEEL_INLINE Sums start(const std::int8_t *) { return vdupq_n_s32(0); }
  static MODELWHEEL_INLINE Row row(const Left *from) {
    std::int32_t four;
    std::memcpy(&four, from, sizeof four);
    return repeat(four);
  }
  static MODELWHEEL_INLINE void store(std::int32_t *to, Sums sums) { vst1q_s32(to, sums); }
};
using Bytes = BytesNeon;
#endif

}  // namespace modelwheel::MODELWHEEL_LEVEL
