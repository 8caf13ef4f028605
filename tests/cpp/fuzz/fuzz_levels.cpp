// Any text as the name of a CPU level, as an argument and in MODELWHEEL_LEVEL, with room of any size for the sentence.
#include <stdlib.h>  // setenv

#include <cstring>
#include <string>
#include <vector>

#include "fuzz.h"
#include "interfaces/toy_model.h"

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  if (size < 2) return 0;
  const bool by_variable = data[0] % 2 == 1;
  const std::string name(reinterpret_cast<const char *>(data) + 2, size - 2);
  std::vector<char> sentence(data[1], 'x');  // of this size, for the address sanitizer
  if (by_variable) setenv("MODELWHEEL_LEVEL", name.c_str(), 1);
  modelwheel_model *model = nullptr;
  const modelwheel_status status =
      toy_api().create(by_variable ? nullptr : name.c_str(), &model, sentence.data(), sentence.size());
  unsetenv("MODELWHEEL_LEVEL");

  const std::string given = name.c_str();  // up to a null
  const bool known = given.empty() || given == toy_api().levels[0];
  REQUIRE((status == MODELWHEEL_OK) == known && (model != nullptr) == known);
  if (known) REQUIRE(std::strcmp(toy_api().level(model), toy_api().levels[0]) == 0);
  if (!sentence.empty()) {
    const std::string_view text(sentence.data(), strnlen(sentence.data(), sentence.size()));
    REQUIRE(text.size() < sentence.size() && is_printable(text) && (known || sentence.size() == 1) == text.empty());
  }
  toy_api().destroy(model);
  return 0;
}
