"""A stand-in for CMSSW's module of this name."""

from FWCore.ParameterSet.Config import PSet

MessageLogger = PSet(cerr=PSet(FwkReport=PSet(reportEvery=100)))
