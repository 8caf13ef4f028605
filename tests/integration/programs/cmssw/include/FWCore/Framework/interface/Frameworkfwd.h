// A stand-in for CMSSW's header of this name: what plugins name before it is defined.
#ifndef STAND_IN_FRAMEWORKFWD_H
#define STAND_IN_FRAMEWORKFWD_H

namespace edm {
class ConfigurationDescriptions;
class Event;
class EventSetup;
class ParameterSet;
}  // namespace edm

#endif  // STAND_IN_FRAMEWORKFWD_H
