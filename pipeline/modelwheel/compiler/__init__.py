"""From a SavedModel to machine code: inspect, check, freeze, compile, evaluate."""
