// Any sequence of calls of the C interface, on four instances and on null.
//
// A line is a call: a letter, the number of an instance (anything but 0 to 3 is null), then its argument. "c0" creates
// instance 0, "r07" runs 7 rows on it, "s05:4,1" gives it a rule. "-" as a text is a null pointer.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fuzz.h"
#include "interfaces/toy_model.h"

namespace {

constexpr std::size_t kInstances = 4, kMostRows = 40;

/// Memory of exactly this size, at an address that is a multiple of `shift` alone, between what ASan watches.
class Memory {
 public:
  Memory(std::size_t bytes, std::size_t shift) : memory_(new char[bytes + shift]()), data_(memory_.get() + shift) {}
  template <class T>
  T get(std::size_t index) const {
    T value;
    std::memcpy(&value, data_ + index * sizeof value, sizeof value);
    return value;
  }
  template <class T>
  void set(std::size_t index, T value) {
    std::memcpy(data_ + index * sizeof value, &value, sizeof value);
  }
  void *data() { return data_; }

 private:
  std::unique_ptr<char[]> memory_;
  char *data_;
};

struct Machine {
  const modelwheel_api &api = toy_api();
  modelwheel_model *instances[kInstances] = {};

  Machine() = default;
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;
  ~Machine() {
    for (modelwheel_model *instance : instances) api.destroy(instance);
  }

  void call(char letter, std::size_t slot, const std::string &text) {
    modelwheel_model *model = slot < kInstances ? instances[slot] : nullptr;
    const char *argument = text == "-" ? nullptr : text.c_str();
    const std::size_t number = static_cast<std::size_t>(std::strtoull(text.c_str(), nullptr, 10));
    switch (letter) {
      case 'c': create(slot, argument); break;
      case 'd': destroy(slot); break;
      case 'r': run(model, number % kMostRows, text.size(), kMostRows, false); break;
      case 'b': run(model, number % kMostRows, text.size(), kMostRows, true); break;
      case 'i': run(model, kMostRows - 1, 0, number % kMostRows, false); break;
      case 'n': run_on_nothing(model, number); break;
      case 's': judge(model, api.set_batch_rule(model, argument)); break;
      case 't': judge(model, api.set_batch_strategy(model, argument)); break;
      case 'e': judge(model, api.set_batch_rule(model, api.error(model))); break;
      case 'q': query(model, number, text.size()); break;
      default: break;
    }
  }

 private:
  void create(std::size_t slot, const char *level) {
    char sentence[64];
    modelwheel_model *made = nullptr;
    const modelwheel_status status = api.create(level, slot < kInstances ? &made : nullptr, sentence, sizeof sentence);
    REQUIRE((status == MODELWHEEL_OK) == (made != nullptr) && is_printable(sentence));
    if (slot >= kInstances) return;
    api.destroy(instances[slot]);
    instances[slot] = made;
  }

  void destroy(std::size_t slot) {
    if (slot >= kInstances) return api.destroy(nullptr);
    api.destroy(instances[slot]);
    instances[slot] = nullptr;
  }

  void judge(const modelwheel_model *model, modelwheel_status status) const {
    REQUIRE(model != nullptr || status == MODELWHEEL_INVALID_ARGUMENT);
    REQUIRE(status <= MODELWHEEL_INTERRUPTED && is_printable(api.error(model)));
    REQUIRE(status == MODELWHEEL_OK || *api.error(model) != '\0');
    REQUIRE((*api.level(model) == '\0') == (model == nullptr));
  }

  void run(modelwheel_model *model, std::size_t rows, std::size_t shift, std::size_t batches, bool exact) {
    shift %= 65;
    Memory x(rows * 8, shift), n(rows * 4, shift / 2), y(rows * 8, shift), positive(rows, 0),
        pair(rows * 16, shift / 3);
    for (std::size_t i = 0; i < 2 * rows; ++i) x.set(i, static_cast<float>(i));
    for (std::size_t i = 0; i < rows; ++i) n.set(i, static_cast<std::int32_t>(i) - 3);
    const void *const inputs[] = {x.data(), n.data()};
    void *const outputs[] = {y.data(), positive.data(), pair.data()};
    const auto stop = [](void *left) { return --*static_cast<std::size_t *>(left) == 0 ? 1 : 0; };
    std::size_t left = batches + 1;
    const modelwheel_status status = exact ? api.run_batch_size(model, rows, inputs, outputs)
                                           : api.run_interruptible(model, rows, inputs, outputs, stop, &left);
    judge(model, status);
    if (status != MODELWHEEL_OK) return;
    for (std::size_t i = 0; i < rows; ++i) {
      const std::int32_t added = n.get<std::int32_t>(i);
      REQUIRE(y.get<float>(2 * i + 1) == 2 * static_cast<float>(2 * i + 1) + static_cast<float>(added));
      REQUIRE(pair.get<std::int64_t>(2 * i + 1) == -added && (positive.get<char>(i) != 0) == (added > 0));
    }
  }

  void run_on_nothing(modelwheel_model *model, std::size_t rows) const {
    const void *const inputs[] = {nullptr, nullptr};
    const modelwheel_status status = api.run(model, rows, rows % 2 == 0 ? inputs : nullptr, nullptr);
    REQUIRE(status == (model != nullptr && rows == 0 ? MODELWHEEL_OK : MODELWHEEL_INVALID_ARGUMENT));
    judge(model, api.run_batch_size(model, rows, nullptr, nullptr));
  }

  void query(modelwheel_model *model, std::size_t rows, std::size_t room) const {
    std::vector<char> text(room * 3, 'x');
    std::size_t length = 1;
    const modelwheel_status status = api.batch_rule(model, rows, text.data(), text.size(), &length);
    judge(model, status);
    REQUIRE((status == MODELWHEEL_OK) == (length != 0));
    if (text.empty()) return;
    const std::size_t written = strnlen(text.data(), text.size());
    REQUIRE(written == (length < text.size() ? length : text.size() - 1));
    if (rows != 0 && length < text.size()) judge(model, api.set_batch_rule(model, text.data()));
  }
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  Machine machine;
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end - start >= 2)
      machine.call(text[start], static_cast<std::size_t>(text[start + 1] - '0'),
                   std::string(text.substr(start + 2, end - start - 2)));
    start = end + 1;
  }
  return 0;
}
