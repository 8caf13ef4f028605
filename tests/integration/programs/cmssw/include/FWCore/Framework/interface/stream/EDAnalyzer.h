// A stand-in for CMSSW's header of this name: the base of modules of which each stream of events has an instance.
#ifndef STAND_IN_EDANALYZER_H
#define STAND_IN_EDANALYZER_H

#include "FWCore/Framework/interface/Event.h"

namespace edm::stream {

class EDAnalyzerBase {
 public:
  EDAnalyzerBase() = default;
  EDAnalyzerBase(const EDAnalyzerBase &) = delete;
  EDAnalyzerBase &operator=(const EDAnalyzerBase &) = delete;
  virtual ~EDAnalyzerBase() = default;
  virtual void analyze(const Event &, const EventSetup &) = 0;
};

template <typename... Abilities>
class EDAnalyzer : public EDAnalyzerBase {};

}  // namespace edm::stream

#endif  // STAND_IN_EDANALYZER_H
