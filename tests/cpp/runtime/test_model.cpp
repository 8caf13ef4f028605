// Instances over hand-written tables: y = 2 x + 1 for rows of three floats, batch sizes 1 and 4, one shared offset.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "baseline.h"
#include "check.h"
#include "model.h"
#include "program.h"
#include "sentence.h"

namespace modelwheel {
namespace {

int calls_of_size_4 = 0;
bool fail_next = false;
Threads last_threads{};  // of the latest run
std::int64_t last_rows = 0;
float fourth_row = 0;  // what a run of size 4 has there first
bool reads_all_rows[] = {true, true};

/// in[0]: rows of x; in[1]: one offset for all rows; out[0]: rows of y; out[1]: for each row its sum, as [rows * 2].
template <std::size_t B>
bool run_rows(const void *const *in, void *const *out, char *arena, const Threads &threads, std::int64_t rows) {
  last_threads = threads;
  last_rows = rows;
  for (const void *pointer : {in[0], in[1], static_cast<const void *>(out[0]), static_cast<const void *>(arena)})
    CHECK(reinterpret_cast<std::uintptr_t>(pointer) % 64 == 0);
  const auto *x = static_cast<const float *>(in[0]);
  const float offset = *static_cast<const float *>(in[1]);
  auto *y = static_cast<float *>(out[0]);
  auto *sums = static_cast<float *>(out[1]);
  for (std::size_t i = 0; i < B; ++i) {
    float sum = 0;
    for (std::size_t j = 0; j < 3; ++j) sum += y[3 * i + j] = 2 * x[3 * i + j] + offset;
    sums[2 * i] = sum;
    sums[2 * i + 1] = -sum;
  }
  calls_of_size_4 += B == 4;
  if (B == 4) fourth_row = x[9];
  return !fail_next;
}

constexpr std::int64_t row_shape[] = {-1, 3}, scalar_shape[] = {1}, pair_shape[] = {-1};
constexpr modelwheel_tensor inputs[] = {{"x", "x", MODELWHEEL_FLOAT32, 4, 2, row_shape, 1, 3, 12},
                                        {"offset", "offset", MODELWHEEL_FLOAT32, 4, 0, scalar_shape, 0, 1, 4}};
constexpr modelwheel_tensor outputs[] = {{"y", "y", MODELWHEEL_FLOAT32, 4, 2, row_shape, 1, 3, 12},
                                         {"sums", "sums", MODELWHEEL_FLOAT32, 4, 1, pair_shape, 2, 2, 8}};
constexpr std::size_t batch_sizes[] = {1, 4};
constexpr std::size_t input_staging[] = {64, 128}, output_staging[] = {192, 256};
const Variant variants[] = {{1, 320, input_staging, output_staging, 1.0, run_rows<1>, 0, 0.0, 0.0, nullptr},
                            {4, 320, input_staging, output_staging, 2.0, run_rows<4>, 128, 0.5, 0.0, reads_all_rows}};
const char *const level_names[] = {BASELINE, "no-such-cpu"};
const Level levels[] = {{BASELINE, variants}, {"no-such-cpu", variants}};

}  // namespace

extern "C" const char modelwheel_weights[64] = {};
const Tables tables = {levels, 1, "cheapest", nullptr, 0, nullptr, nullptr};
// clang-format off
const modelwheel_api api = {sizeof(modelwheel_api), MODELWHEEL_ABI_VERSION, "affine", "1.0", "{}", 2, inputs, 2, outputs,
                            2, batch_sizes, 1, nullptr, 2, level_names, create, destroy, level, error, run,
                            run_batch_size, set_batch_rule, set_batch_strategy, batch_rule, run_interruptible,
                            0, nullptr, nullptr, nullptr, run_length, 0, nullptr, reset, get_state,
                            set_state, copy_state, instance_bytes, create_in, rows_per_thread, set_threads, estimate, run_part, run_views};
// clang-format on

}  // namespace modelwheel

using namespace modelwheel;

namespace {

struct Instance {
  modelwheel_model *model = nullptr;
  Instance() { CHECK(create(nullptr, &model, nullptr, 0) == MODELWHEEL_OK); }
  ~Instance() { destroy(model); }
  std::string rule(std::size_t rows) const {
    char text[64];
    CHECK(batch_rule(model, rows, text, sizeof text, nullptr) == MODELWHEEL_OK);
    return text;
  }
};

void any_rows_and_any_alignment_give_the_same() {
  const Instance instance;
  for (std::size_t shift : {0, 4, 8, 16, 32, 60})
    for (std::size_t rows : {0U, 1U, 2U, 3U, 4U, 5U, 7U, 16U, 33U}) {
      std::vector<char> in(rows * 12 + 128), out(rows * 12 + 128, 'x'), sums(rows * 8 + 128), offset(128);
      const auto at = [&](std::vector<char> &memory) {
        const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
        return reinterpret_cast<float *>(memory.data() + (64 - address % 64) % 64 + shift);
      };
      for (std::size_t i = 0; i < rows * 3; ++i) at(in)[i] = static_cast<float>(i);
      *at(offset) = 1;
      const void *const input_buffers[] = {at(in), at(offset)};
      void *const output_buffers[] = {at(out), at(sums)};
      CHECK(run(instance.model, rows, input_buffers, output_buffers) == MODELWHEEL_OK);
      if (rows == 3 || rows == 7) CHECK(last_rows == 3);
      for (std::size_t i = 0; i < rows * 3; ++i) CHECK(at(out)[i] == 2 * static_cast<float>(i) + 1);
      for (std::size_t i = 0; i < rows; ++i) CHECK(at(sums)[2 * i] == -at(sums)[2 * i + 1]);
      CHECK(reinterpret_cast<char *>(at(out) + rows * 3)[0] == 'x');
    }
}

void rows_that_nobody_reads_are_left_as_they_are() {
  const Instance instance;
  float x[13], offset[2] = {}, y[12], sums[8];
  for (int i = 0; i < 13; ++i) x[i] = static_cast<float>(i + 1);
  void *const out[] = {y, sums};
  for (const float *first : {x, x + 1}) {  // one of them at least is copied
    const void *const in[] = {first, offset};
    for (const bool reads : {true, false}) {
      reads_all_rows[0] = reads;
      CHECK(run(instance.model, 4, in, out) == MODELWHEEL_OK);
      fourth_row = -1;
      CHECK(run(instance.model, 3, in, out) == MODELWHEEL_OK && last_rows == 3);
      CHECK(reads ? fourth_row == 0 : fourth_row != -1);
      if (!reads && reinterpret_cast<std::uintptr_t>(first) % 64 != 0) CHECK(fourth_row == first[9]);
    }
  }
  reads_all_rows[0] = true;
}

void rules_decide_the_composition() {
  const Instance instance;
  CHECK(instance.rule(0) == "0");
  CHECK(instance.rule(3) == "3:4");  // 2.0 for a padded four, 3.0 for three ones
  CHECK(instance.rule(5) == "5:4,1" || instance.rule(5) == "5:1,4");
  CHECK(set_batch_rule(instance.model, "3:1,1,1") == MODELWHEEL_OK);
  CHECK(instance.rule(3) == "3:1,1,1");
  CHECK(set_batch_rule(instance.model, "3:4") == MODELWHEEL_OK);
  CHECK(instance.rule(3) == "3:4");
  CHECK(set_batch_strategy(instance.model, "smallest") == MODELWHEEL_OK);
  CHECK(instance.rule(2) == "2:1,1");
  CHECK(instance.rule(3) == "3:4");
  CHECK(set_batch_strategy(instance.model, "fastest") == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(set_batch_rule(instance.model, "3:2,1") == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(std::string(error(instance.model)).find("3:2,1") != std::string::npos);
  char cut[4];
  std::size_t length = 0;
  CHECK(batch_rule(instance.model, 9, cut, sizeof cut, &length) == MODELWHEEL_OK);
  CHECK(std::strlen(cut) == 3 && length > 3);
}

void an_instance_is_made_in_memory_of_the_caller() {
  const std::size_t bytes = instance_bytes(BASELINE);
  CHECK(instance_bytes(nullptr) == bytes && instance_bytes("no-such-cpu") == bytes && instance_bytes("v9") == 0);
  auto *memory = static_cast<char *>(std::aligned_alloc(MODELWHEEL_ALIGNMENT, bytes));  // a sanitizer sees its end
  modelwheel_model *model = nullptr;
  char sentence[256];
  const auto make = [&](char *place, std::size_t size) {
    return create_in(place, size, BASELINE, &model, sentence, sizeof sentence);
  };
  CHECK(make(memory, bytes - 1) == MODELWHEEL_OUT_OF_MEMORY && model == nullptr);
  CHECK(std::strstr(sentence, ("needs " + std::to_string(bytes) + " bytes").c_str()) != nullptr);
  CHECK(make(memory + 8, bytes) == MODELWHEEL_INVALID_ARGUMENT && std::strstr(sentence, "multiple of 64") != nullptr);
  CHECK(make(nullptr, bytes) == MODELWHEEL_INVALID_ARGUMENT && model == nullptr);
  CHECK(create_in(memory, bytes, BASELINE, nullptr, nullptr, 0) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(create_in(memory, bytes, "v9", &model, nullptr, 0) == MODELWHEEL_UNSUPPORTED);
  CHECK(make(memory, bytes) == MODELWHEEL_OK);

  const float x[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, offset = 1;
  float y[15], sums[10];
  const void *const in[] = {x, &offset};
  void *const out[] = {y, sums};
  CHECK(run(model, 5, in, out) == MODELWHEEL_OK && y[14] == 29 && sums[8] == 81);
  for (int i = 0; i < 1000; ++i) CHECK(set_batch_rule(model, i % 2 == 0 ? "5:1,4" : "5:4,4") == MODELWHEEL_OK);
  std::string longest = "1200:4";
  for (int i = 1; i < 300; ++i) longest += ",4";
  CHECK(set_batch_rule(model, longest.c_str()) == MODELWHEEL_OUT_OF_MEMORY);
  CHECK(std::strstr(error(model), "no room for the batch rule '1200:4") != nullptr);
  CHECK(run(model, 5, in, out) == MODELWHEEL_OK && y[14] == 29);
  destroy(model);  // does not free the memory
  CHECK(make(memory, bytes) == MODELWHEEL_OK && run(model, 5, in, out) == MODELWHEEL_OK);
  std::free(memory);

  const Instance instance;  // whose memory is the library's, and grows
  CHECK(set_batch_rule(instance.model, longest.c_str()) == MODELWHEEL_OK && instance.rule(1200).size() == 63);
  CHECK(set_batch_rule(instance.model, "3:1,1,1") == MODELWHEEL_OK && instance.rule(3) == "3:1,1,1");
}

void an_exact_batch_size_ignores_rules() {
  const Instance instance;
  alignas(64) float x[12] = {}, y[12], sums[8], offset = 1;
  const void *const in[] = {x, &offset};
  void *const out[] = {y, sums};
  CHECK(set_batch_rule(instance.model, "4:1,1,1,1") == MODELWHEEL_OK);
  calls_of_size_4 = 0;
  CHECK(run(instance.model, 4, in, out) == MODELWHEEL_OK && calls_of_size_4 == 0);
  CHECK(run_batch_size(instance.model, 4, in, out) == MODELWHEEL_OK && calls_of_size_4 == 1);
  CHECK(run_batch_size(instance.model, 3, in, out) == MODELWHEEL_INVALID_ARGUMENT);
}

void misuse_is_a_sentence_and_not_a_crash() {
  const Instance instance;
  alignas(64) float x[3] = {}, offset = 0, y[3];
  const void *const in[] = {x, nullptr};
  void *const out[] = {y, y};
  CHECK(run(instance.model, 1, in, out) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(std::string(error(instance.model)).find("'offset'") != std::string::npos);
  CHECK(run(instance.model, 1, nullptr, out) == MODELWHEEL_INVALID_ARGUMENT);
  float sums[2];
  const void *const good_in[] = {x, &offset};
  void *const good_out[] = {y, sums};
  fail_next = true;
  CHECK(run(instance.model, 1, good_in, good_out) == MODELWHEEL_INTERNAL);
  fail_next = false;
  destroy(nullptr);
}

void levels_are_chosen_and_refused_by_name() {
  char text[256];
  modelwheel_model *model = nullptr;
  CHECK(create(BASELINE, &model, text, sizeof text) == MODELWHEEL_OK);
  CHECK(std::string(level(model)) == BASELINE);
  destroy(model);
  CHECK(create("x86-64-v9", &model, text, sizeof text) == MODELWHEEL_UNSUPPORTED && model == nullptr);
  CHECK(std::string(text).find(BASELINE) != std::string::npos);
  setenv("MODELWHEEL_LEVEL", "no-such-cpu", 1);
  CHECK(create(nullptr, &model, text, sizeof text) == MODELWHEEL_UNSUPPORTED);
  CHECK(std::string(text).find("MODELWHEEL_LEVEL") != std::string::npos);
  unsetenv("MODELWHEEL_LEVEL");
  CHECK(create(nullptr, nullptr, text, sizeof text) == MODELWHEEL_INVALID_ARGUMENT);
}

void a_null_instance_is_answered() {
  alignas(64) float x[3] = {}, offset = 0, y[3], sums[2];
  const void *const in[] = {x, &offset};
  void *const out[] = {y, sums};
  char text[] = "before";
  std::size_t length = 7;
  CHECK(run(nullptr, 1, in, out) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(run_interruptible(nullptr, 1, in, out, nullptr, nullptr) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(run_batch_size(nullptr, 1, in, out) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(set_batch_rule(nullptr, "3:4") == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(set_batch_strategy(nullptr, "cheapest") == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(batch_rule(nullptr, 3, text, sizeof text, &length) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(text[0] == '\0' && length == 0);
  CHECK(std::string(level(nullptr)).empty());
  CHECK(std::string(error(nullptr)) == "the instance is null");
}

void rules_of_any_number_of_rows_take_no_time() {
  const Instance instance;
  constexpr std::size_t kRows = std::size_t{1} << 62;
  char text[32];
  std::size_t length = 0;
  for (const char *strategy : {"cheapest", "smallest"}) {
    CHECK(set_batch_strategy(instance.model, strategy) == MODELWHEEL_OK);
    for (const std::size_t rows : {kRows, SIZE_MAX}) {
      CHECK(batch_rule(instance.model, rows, text, sizeof text, &length) == MODELWHEEL_OK);
      CHECK(std::string(text).find(std::to_string(rows) + ':') == 0 && std::strlen(text) == sizeof text - 1);
      CHECK(length >= rows / 4 * 2);
    }
    CHECK(length == SIZE_MAX || std::string(strategy) == "cheapest");
    CHECK(batch_rule(instance.model, kRows, nullptr, 0, nullptr) == MODELWHEEL_OK);
  }
}

void repeated_sizes_are_written_as_they_are_run() {
  const Instance instance;
  for (const char *strategy : {"cheapest", "smallest"}) {
    CHECK(set_batch_strategy(instance.model, strategy) == MODELWHEEL_OK);
    for (std::size_t rows = 1; rows < 200; ++rows) {
      std::vector<float> x(3 * rows), y(3 * rows), sums(2 * rows);
      const float offset = 0;
      const void *const in[] = {x.data(), &offset};
      void *const out[] = {y.data(), sums.data()};
      std::string text(1000, '\0');
      std::size_t length = 0, fours = 0;
      CHECK(batch_rule(instance.model, rows, text.data(), text.size(), &length) == MODELWHEEL_OK);
      CHECK(std::strlen(text.c_str()) == length);
      const std::string sizes = text.substr(text.find(':'), length);
      for (const char size : sizes) fours += size == '4';
      calls_of_size_4 = 0;
      CHECK(run(instance.model, rows, in, out) == MODELWHEEL_OK);
      CHECK(static_cast<std::size_t>(calls_of_size_4) == fours);
    }
  }
}

void a_long_run_can_be_interrupted() {
  const Instance instance;
  float x[30] = {}, offset = 0, y[30], sums[20];
  const void *const in[] = {x, &offset};
  void *const out[] = {y, sums};
  int calls = 0;
  const auto second = [](void *context) { return ++*static_cast<int *>(context) == 2 ? 1 : 0; };
  CHECK(set_batch_rule(instance.model, "10:1,4,1,4") == MODELWHEEL_OK);
  calls_of_size_4 = 0;
  CHECK(run_interruptible(instance.model, 10, in, out, second, &calls) == MODELWHEEL_INTERRUPTED);
  CHECK(calls == 2 && calls_of_size_4 == 1);
  CHECK(std::string(error(instance.model)).find("10 rows was interrupted") != std::string::npos);
  CHECK(run_interruptible(instance.model, 10, in, out, second, &calls) == MODELWHEEL_OK && calls == 5);
  calls = 0;
  CHECK(run_interruptible(instance.model, 1, in, out, second, &calls) == MODELWHEEL_OK && calls == 0);
}

void sentences_show_any_text_as_printable_ascii() {
  const Instance instance;
  const auto after = [&](const char *text) {
    CHECK(set_batch_rule(instance.model, text) == MODELWHEEL_INVALID_ARGUMENT);
    return std::string(error(instance.model));
  };
  CHECK(after("a\x1b[31m\n\xff").find("'a\\x1b[31m\\x0a\\xff'") != std::string::npos);
  std::string long_text = "a";
  for (int i = 0; i < 400; ++i) long_text += "\xc3\xa9";
  const std::string sentence = after(long_text.c_str());
  CHECK(sentence.find("\\xc3\\xa9...'") != std::string::npos);
  for (const char byte : sentence) CHECK(byte >= 0x20 && byte < 0x7f);
  CHECK(after(error(instance.model)).find("'a batch rule reads ROWS:SIZE") != std::string::npos);
  char text[300] = "no such \xe2\x82\xac";
  modelwheel_model *model = nullptr;
  CHECK(create(text, &model, text, sizeof text) == MODELWHEEL_UNSUPPORTED);  // one buffer for both
  CHECK(std::string(text).find("'no such \\xe2\\x82\\xac'") != std::string::npos);
}

void sentences_are_cut_between_characters() {
  for (std::size_t size = 1; size < 16; ++size) {
    char text[16];
    modelwheel::write_sentence(text, size, "%s", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
    const std::size_t whole[] = {0, 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11, 11, 11};
    CHECK(std::strlen(text) == whole[size]);
  }
}

/// The memory of the parts is the instance's: for as many threads as it has been asked for, at most.
void threads_share_steps() {
  const auto run_parts = [](void *, std::size_t, modelwheel_task, void *) {};
  Instance own;
  const auto used = [&own] {
    alignas(64) float x[12] = {}, offset[1] = {}, y[12], sums[8];
    const void *const in[] = {x, offset};
    void *const out[] = {y, sums};
    CHECK(run(own.model, 4, in, out) == MODELWHEEL_OK);
    return last_threads;
  };
  CHECK(used().count == 1);
  CHECK(set_threads(own.model, 2, nullptr, nullptr) == MODELWHEEL_INVALID_ARGUMENT);
  CHECK(std::strcmp(error(own.model), "the function that runs the parts of 2 threads is null") == 0);
  CHECK(used().count == 1);
  CHECK(set_threads(own.model, 3, run_parts, &own) == MODELWHEEL_OK);
  const Threads three = used();
  CHECK(three.count == 3 && three.run == run_parts && three.context == &own && three.part_bytes == 128);
  CHECK(reinterpret_cast<std::uintptr_t>(three.scratch) % 64 == 0);
  std::memset(three.scratch, 1, 3 * 128);
  CHECK(set_threads(own.model, 1, nullptr, nullptr) == MODELWHEEL_OK && used().count == 1);
  CHECK(set_threads(own.model, 2, run_parts, nullptr) == MODELWHEEL_OK && used().scratch == three.scratch);
  CHECK(set_threads(own.model, 1000, run_parts, nullptr) == MODELWHEEL_OK && used().count == kMostThreads);
  std::memset(used().scratch, 1, kMostThreads * 128);
  CHECK(set_threads(nullptr, 2, run_parts, nullptr) == MODELWHEEL_INVALID_ARGUMENT);
}

/// In the caller's memory there is none for them.
void threads_need_memory() {
  const auto run_parts = [](void *, std::size_t, modelwheel_task, void *) {};
  const std::size_t bytes = instance_bytes(BASELINE);
  void *memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  modelwheel_model *model = nullptr;
  CHECK(create_in(memory, bytes, BASELINE, &model, nullptr, 0) == MODELWHEEL_OK);
  CHECK(set_threads(model, 1, nullptr, nullptr) == MODELWHEEL_OK);
  CHECK(set_threads(model, 2, run_parts, nullptr) == MODELWHEEL_OUT_OF_MEMORY);
  CHECK(std::strcmp(error(model), "there is no memory for 2 threads of this instance") == 0);
  destroy(model);
  std::free(memory);
}

}  // namespace

int main() {
  threads_share_steps();
  threads_need_memory();
  any_rows_and_any_alignment_give_the_same();
  rows_that_nobody_reads_are_left_as_they_are();
  rules_decide_the_composition();
  an_instance_is_made_in_memory_of_the_caller();
  an_exact_batch_size_ignores_rules();
  misuse_is_a_sentence_and_not_a_crash();
  levels_are_chosen_and_refused_by_name();
  a_null_instance_is_answered();
  rules_of_any_number_of_rows_take_no_time();
  repeated_sizes_are_written_as_they_are_run();
  a_long_run_can_be_interrupted();
  sentences_show_any_text_as_printable_ascii();
  sentences_are_cut_between_characters();
  return check_report();
}
