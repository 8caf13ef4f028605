// throws.h - that something fails, and says the right thing.
#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>

/// Whether `action` throws a std::runtime_error whose text contains `part`; prints the text if it does not.
template <class Action>
bool throws(const std::string &part, Action &&action) {
  try {
    action();
  } catch (const std::runtime_error &error) {
    const bool found = std::string(error.what()).find(part) != std::string::npos;
    if (!found) std::printf("  the text is: %s\n", error.what());
    return found;
  }
  return false;
}
