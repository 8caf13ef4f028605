// open_library: what the package modelwheel-runtime opens, and what it says of what it cannot.
//
// Arguments: the libraries of a sound model, of one with another ABI version, of one with a short table, of one with
// a longer table, a file that is no library, and those of two versions of one model.
#include "modelwheel/library.hpp"

#include <cstring>
#include <string>

#include "check.h"
#include "throws.h"

namespace {

const modelwheel_api &open(const std::string &path, const std::string &module = "model_doubling") {
  return modelwheel::open_library(path, module, "1.2.3");
}

void test_a_sound_library(const std::string &path) {
  const modelwheel_api &api = open(path);
  CHECK(std::strcmp(api.name, "doubling") == 0);
  CHECK(&open(path) == &api);
  const modelwheel::Instance model = modelwheel::make_instance(api);
  const float x[] = {1, 2};
  float y[2] = {};
  const void *inputs[] = {x};
  void *outputs[] = {y};
  CHECK(api.run(model.get(), 1, inputs, outputs) == MODELWHEEL_OK && y[0] == 2 && y[1] == 4);
}

void test_other_generations(const std::string &abi, const std::string &shorter, const std::string &longer) {
  CHECK(throws("was built for version 7 of modelwheel's ABI, but modelwheel-runtime 1.2.3 is for version",
               [&] { open(abi); }));
  CHECK(throws("pip install \"modelwheel-runtime>=7,<8\"", [&] { open(abi); }));
  CHECK(throws("offers a table of 8 bytes", [&] { open(shorter); }));
  CHECK(open(longer).struct_size > sizeof(modelwheel_api));
}

void test_what_a_program_says(const std::string &abi) {
  CHECK(throws("but this program is for version 1; compile it with the headers that come with the library",
               [&] { modelwheel::open_library(abi, "model_doubling"); }));
}

/// Files of one name in two directories, as two versions of a model are installed.
void test_two_versions(const std::string &one, const std::string &other) {
  const modelwheel_api &first = open(one), &second = open(other);
  CHECK(&first != &second);
  CHECK(std::strcmp(first.version, "1.0") == 0 && std::strcmp(second.version, "1.1") == 0);
  CHECK(&open(one) == &first && &open(other) == &second);
}

void test_what_is_no_library_of_the_model(const std::string &sound, const std::string &text) {
  CHECK(throws("has no function model_other_api", [&] { open(sound, "model_other"); }));
  CHECK(throws("cannot be loaded", [&] { open(text); }));
  CHECK(throws("cannot be loaded", [&] { open(text + ".absent"); }));
}

}  // namespace

int main(int count, char **arguments) {
  CHECK(count == 8);
  if (count != 8) return check_report();
  test_a_sound_library(arguments[1]);
  test_other_generations(arguments[2], arguments[3], arguments[4]);
  test_what_a_program_says(arguments[2]);
  test_what_is_no_library_of_the_model(arguments[1], arguments[5]);
  test_two_versions(arguments[6], arguments[7]);
  return check_report();
}
