// fuzz.h - what the programs that read any bytes share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

/// Ends the process where something is wrong: libFuzzer then keeps the bytes that led there.
#define REQUIRE(condition)                                                   \
  do {                                                                       \
    if (!(condition)) {                                                      \
      std::printf("%s:%d: is not so: %s\n", __FILE__, __LINE__, #condition); \
      std::fflush(stdout);                                                   \
      std::abort();                                                          \
    }                                                                        \
  } while (false)

/// Whether a sentence is what a terminal, a log and Python's str take: all text from callers is escaped.
inline bool is_printable(std::string_view text) {
  for (const char byte : text)
    if (byte < 0x20 || byte > 0x7e) return false;
  return true;
}
