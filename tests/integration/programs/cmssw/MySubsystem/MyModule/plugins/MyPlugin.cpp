// A plugin of CMSSW that evaluates a compiled model: the calls of the example in CMS's documentation, for as many rows
// as the number of the event.
#include <memory>

#include "FWCore/Framework/interface/Event.h"
#include "FWCore/Framework/interface/Frameworkfwd.h"
#include "FWCore/Framework/interface/MakerMacros.h"
#include "FWCore/Framework/interface/stream/EDAnalyzer.h"
#include "FWCore/ParameterSet/interface/ParameterSet.h"
#include "PhysicsTools/TensorFlowAOT/interface/Model.h"
#include "tfaot-model-test/model.h"

// For the precision of what is printed.
#include <limits>

class MyPlugin : public edm::stream::EDAnalyzer<> {
 public:
  explicit MyPlugin(const edm::ParameterSet &);

  static void fillDescriptions(edm::ConfigurationDescriptions &);

 private:
  void analyze(const edm::Event &, const edm::EventSetup &) override;

  std::vector<std::string> batchRuleStrings_;
  tfaot::Model<tfaot_model::test> model_;
};

void MyPlugin::fillDescriptions(edm::ConfigurationDescriptions &descriptions) {
  edm::ParameterSetDescription desc;
  desc.add<std::vector<std::string>>("batchRules");
  descriptions.addWithDefaultLabel(desc);
}

MyPlugin::MyPlugin(const edm::ParameterSet &config)
    : batchRuleStrings_(config.getParameter<std::vector<std::string>>("batchRules")) {
  for (const auto &rule : batchRuleStrings_) model_.setBatchRule(rule);
}

void MyPlugin::analyze(const edm::Event &event, const edm::EventSetup &) {
  const std::size_t rows = event.id().event();
  tfaot::FloatArrays input;
  for (std::size_t row = 0; row < rows; ++row) {
    const float first = static_cast<float>(4 * row);
    input.push_back({first, first + 1, first + 2, first + 3});
  }
  tfaot::FloatArrays output;
  std::tie(output) = model_.run<tfaot::FloatArrays>(rows, input);

  std::cout.precision(std::numeric_limits<float>::max_digits10);
  for (const auto &row : output) std::cout << "output " << rows << ": " << row[0] << ", " << row[1] << '\n';
  if (model_.getBatchStrategy().hasRule(rows)) std::cout << model_.getBatchStrategy().getRule(rows) << '\n';
}

DEFINE_FWK_MODULE(MyPlugin);
