// other_unit.cpp - a second translation unit with all headers: linking shows that nothing is defined twice.
#include "PhysicsTools/TensorFlowAOT/interface/AOT.h"
#include "toy_functions.h"

const char *name_from_other_unit();

const char *name_from_other_unit() { return toy_api().name; }
