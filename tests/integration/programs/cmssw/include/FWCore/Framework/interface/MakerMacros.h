// A stand-in for CMSSW's header of this name: a plug-in is a library that offers one module under a known name.
#ifndef STAND_IN_MAKERMACROS_H
#define STAND_IN_MAKERMACROS_H

#include <memory>

#include "FWCore/Framework/interface/stream/EDAnalyzer.h"
#include "FWCore/ParameterSet/interface/ParameterSet.h"

namespace edm {

struct Plugin {
  const char *name;
  std::unique_ptr<stream::EDAnalyzerBase> (*make)(const ParameterSet &);
  void (*describe)(ConfigurationDescriptions &);
};

template <class Module>
std::unique_ptr<stream::EDAnalyzerBase> make_module(const ParameterSet &parameters) {
  return std::make_unique<Module>(parameters);
}

}  // namespace edm

#define DEFINE_FWK_MODULE(module)      \
  extern "C" const edm::Plugin plugin; \
  const edm::Plugin plugin { #module, &edm::make_module<module>, &module::fillDescriptions }

#endif  // STAND_IN_MAKERMACROS_H
