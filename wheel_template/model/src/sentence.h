// src/sentence.h - the sentences of failures: bounded, and valid UTF-8 whatever a caller passes.
#pragma once

#include <cstdarg>
#include <cstddef>

namespace modelwheel {

/// Formats like vsnprintf; a text that has to be cut ends with a whole character.
void format_sentence(char *text, std::size_t size, const char *format, std::va_list arguments);

/// The same for arguments in place.
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void write_sentence(char *text, std::size_t size, const char *format, ...);

/// A copy of a caller's text that is safe to show: printable ASCII as it is, every other byte as \xNN, and "..." where
/// it is cut.
class Quoted {
 public:
  explicit Quoted(const char *text);

  const char *text() const { return text_; }

 private:
  char text_[104];
};

}  // namespace modelwheel
