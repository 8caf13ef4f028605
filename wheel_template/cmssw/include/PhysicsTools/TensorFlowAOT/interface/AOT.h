// PhysicsTools/TensorFlowAOT/interface/AOT.h - everything of tfaot at once.
#ifndef PHYSICSTOOLS_TENSORFLOWAOT_AOT_H
#define PHYSICSTOOLS_TENSORFLOWAOT_AOT_H

#include "PhysicsTools/TensorFlowAOT/interface/Batching.h"
#include "PhysicsTools/TensorFlowAOT/interface/Model.h"

#endif  // PHYSICSTOOLS_TENSORFLOWAOT_AOT_H
