// A stand-in for CMSSW's header of this name: an event that has a number and nothing else.
#ifndef STAND_IN_EVENT_H
#define STAND_IN_EVENT_H

#include <cstdint>
#include <iostream>  // CMSSW's headers bring it, and plugins rely on that

namespace edm {

class EventID {
 public:
  explicit EventID(std::uint64_t event) : event_(event) {}
  std::uint64_t event() const { return event_; }

 private:
  std::uint64_t event_;
};

class Event {
 public:
  explicit Event(std::uint64_t event) : id_(event) {}
  EventID id() const { return id_; }

 private:
  EventID id_;
};

class EventSetup {};

}  // namespace edm

#endif  // STAND_IN_EVENT_H
