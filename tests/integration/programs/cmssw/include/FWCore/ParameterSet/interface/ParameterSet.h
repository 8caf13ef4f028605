// A stand-in for CMSSW's header of this name: parameters that are lists of strings, and what modules say about theirs.
#ifndef STAND_IN_PARAMETERSET_H
#define STAND_IN_PARAMETERSET_H

#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace edm {

using Strings = std::vector<std::string>;

class ParameterSet {
 public:
  explicit ParameterSet(std::map<std::string, Strings> values) : values_(std::move(values)) {}

  template <typename T>
  T getParameter(const std::string &name) const {
    static_assert(std::is_same_v<T, Strings>, "the stand-in has lists of strings alone");
    const auto found = values_.find(name);
    if (found == values_.end()) throw std::runtime_error("there is no parameter " + name);
    return found->second;
  }

 private:
  std::map<std::string, Strings> values_;
};

class ParameterSetDescription {
 public:
  template <typename T>
  void add(const std::string &name) {
    static_assert(std::is_same_v<T, Strings>, "the stand-in has lists of strings alone");
    names_.push_back(name);
  }
  const Strings &names() const { return names_; }

 private:
  Strings names_;
};

class ConfigurationDescriptions {
 public:
  void addWithDefaultLabel(const ParameterSetDescription &description) { description_ = description; }
  const ParameterSetDescription &description() const { return description_; }

 private:
  ParameterSetDescription description_;
};

}  // namespace edm

#endif  // STAND_IN_PARAMETERSET_H
