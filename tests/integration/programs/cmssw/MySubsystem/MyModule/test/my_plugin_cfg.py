"""Runs MyPlugin on ten events, with the batch rules of the example in CMS's documentation."""

import FWCore.ParameterSet.Config as cms
from FWCore.ParameterSet.VarParsing import VarParsing

options = VarParsing("python")
options.setDefault("inputFiles", "events.root")
options.parseArguments()

process = cms.Process("TEST")
process.load("FWCore.MessageService.MessageLogger_cfi")
process.MessageLogger.cerr.FwkReport.reportEvery = 1
process.maxEvents = cms.untracked.PSet(input=cms.untracked.int32(10))
process.source = cms.Source("PoolSource", fileNames=cms.untracked.vstring(options.inputFiles))
process.options = cms.untracked.PSet(
    allowUnscheduled=cms.untracked.bool(True),
    wantSummary=cms.untracked.bool(True),
)

# The file that scram writes when it builds the plugin, from what fillDescriptions says.
process.load("MySubsystem.MyModule.myPlugin_cfi")
process.myPlugin.batchRules = cms.vstring(["3:1,1,1", "5:4,1", "6:4,4"])

process.p = cms.Path(process.myPlugin)
