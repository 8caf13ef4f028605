// src/sentence.cpp - see sentence.h.
#include "sentence.h"

#include <cstdio>
#include <cstring>

namespace modelwheel {
namespace {

/// The length of the character that a byte of UTF-8 begins; 0 for the bytes inside a character.
std::size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte < 0xc0) return 0;
  return byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// Removes the last character of a text that was cut, unless all of its bytes are there.
void drop_partial_character(char *text, std::size_t length) {
  std::size_t start = length;
  while (start > 0 && character_bytes(text[start - 1]) == 0) --start;
  if (start > 0 && start - 1 + character_bytes(text[start - 1]) > length) text[start - 1] = '\0';
}

}  // namespace

void format_sentence(char *text, std::size_t size, const char *format, std::va_list arguments) {
  const int length = std::vsnprintf(text, size, format, arguments);
  if (size != 0 && length >= 0 && static_cast<std::size_t>(length) >= size) drop_partial_character(text, size - 1);
}

void write_sentence(char *text, std::size_t size, const char *format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  format_sentence(text, size, format, arguments);
  va_end(arguments);
}

Quoted::Quoted(const char *text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  constexpr std::size_t kLongest = 4, kEnd = sizeof "...";  // of one byte; of the mark of a cut with its null
  std::size_t used = 0;
  for (; *text != '\0'; ++text) {
    if (used + kLongest + kEnd > sizeof text_) {
      std::memcpy(text_ + used, "...", kEnd);
      return;
    }
    const auto byte = static_cast<unsigned char>(*text);
    if (byte >= 0x20 && byte < 0x7f) {
      text_[used++] = *text;
      continue;
    }
    const char escaped[] = {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    std::memcpy(text_ + used, escaped, sizeof escaped);
    used += sizeof escaped;
  }
  text_[used] = '\0';
}

}  // namespace modelwheel
