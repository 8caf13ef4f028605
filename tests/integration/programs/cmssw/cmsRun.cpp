// A stand-in for cmsRun and edmWriteConfigs.
//
//   cmsRun PLUGIN.so                          prints the module and the names of its parameters
//   cmsRun PLUGIN.so EVENTS [NAME=VALUE...]   runs the module; a name that comes again is a list
#include <dlfcn.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "FWCore/Framework/interface/MakerMacros.h"

namespace {

const edm::Plugin &load(const char *path) {
  void *const library = dlopen(path, RTLD_NOW);
  void *const found = library == nullptr ? nullptr : dlsym(library, "plugin");
  if (found == nullptr) throw std::runtime_error(dlerror());
  return *static_cast<const edm::Plugin *>(found);
}

void describe(const edm::Plugin &plugin) {
  edm::ConfigurationDescriptions descriptions;
  plugin.describe(descriptions);
  std::cout << plugin.name << '\n';
  for (const std::string &name : descriptions.description().names()) std::cout << name << '\n';
}

void run(const edm::Plugin &plugin, const std::vector<std::string> &words) {
  std::map<std::string, edm::Strings> parameters;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t end = words[i].find('=');
    parameters[words[i].substr(0, end)].push_back(words[i].substr(end + 1));
  }
  const auto module = plugin.make(edm::ParameterSet(parameters));
  const std::uint64_t events = std::stoull(words[0]);
  for (std::uint64_t event = 1; event <= events; ++event) module->analyze(edm::Event(event), edm::EventSetup());
}

}  // namespace

int main(int argc, char **argv) {
  try {
    const edm::Plugin &plugin = load(argv[1]);
    argc == 2 ? describe(plugin) : run(plugin, {argv + 2, argv + argc});
  } catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
