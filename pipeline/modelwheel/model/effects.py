"""The effects of operations beside their results: the reviewed table behind the judgement of a model.

An operation may run only if it has no effect. The rule is in `compiler/graphs/op_effects.py`, which knows TensorFlow's
registry: an operation is harmless if TensorFlow registers it as stateless and without references, unless
this table says otherwise. `is_stateful` alone is not enough: ReadFile, DebugIdentity and Abort do not
count as stateful. Every stateful operation is listed here; one that is not is refused.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, TypeAlias

Effect: TypeAlias = Literal[
    "",
    "files",
    "network",
    "python",
    "terminal",
    "process",
    "clock",
    "dataset",
    "queue",
    "summary",
    "table",
    "variable",
    "state",
    "device",
    "custom",
    "unreviewed",
]
"""The kind of effect; empty for an operation that only computes."""

STATE_FIX = "export a signature that takes the state as inputs and returns it as outputs"
KEEP_STATE = "keep_state: true"
"""The line of a spec that declares it."""
VARIABLE_FIX = f"write `{KEEP_STATE}` in the spec to keep it in the compiled model, or {STATE_FIX}"
TABLE_FIX = "look values up outside the model, or use tf.gather on a constant"
KERAS_TABLE_FIX = (
    "look values up outside the model; of a model of Keras, compile the part behind the layers that do: "
    "`parts = {name: model.get_layer(name).output for name in NAMES}` and "
    "`keras.Model(parts, model.outputs).save('numeric.keras')`, with the names of these layers and of "
    "all inputs that are numbers"
)
"""For signatures that take texts, as TextVectorization and StringLookup do."""

VERBS: dict[Effect, tuple[str, str]] = {
    "files": ("reads or writes files", "remove file access from the model and export it again"),
    "network": ("uses the network", "remove communication from the model and export it again"),
    "python": ("runs Python code", "write it with TensorFlow operations"),
    "terminal": ("prints", "remove tf.print from the model and export it again"),
    "process": ("stops or delays the process", "remove it from the model and export it again"),
    "clock": ("reads the clock", "pass the time as an input"),
    "dataset": ("runs a dataset", "keep tf.data outside the model"),
    "queue": ("uses threads or queues", "export the model without its input pipeline"),
    "summary": ("writes summaries", "export the model for inference (training=False)"),
    "table": ("looks values up in tables", TABLE_FIX),
    "variable": ("keeps state in variables between calls", VARIABLE_FIX),
    "state": ("keeps state that cannot be compiled", STATE_FIX),
    "device": ("talks to a device", "export the model for CPUs"),
    "custom": (
        "needs a kernel from a custom op library",
        "write it with TensorFlow's own operations",
    ),
    "unreviewed": (
        "uses an operation that modelwheel does not know to be harmless",
        "replace it with other operations, or report it",
    ),
}
"""What such an operation does, after the name of a signature, and how to do without."""

_HARMLESS = frozenset(
    {
        # They run functions, which are judged themselves.
        *("StatefulPartitionedCall", "If", "While", "Case", "XlaIf", "XlaWhile"),
        # They read variables, or name them.
        *("VarHandleOp", "ReadVariableOp", "VariableShape", "VarIsInitializedOp"),
        *("ResourceGather", "ResourceGatherNd", "Variable", "VariableV2", "IsVariableInitialized"),
        # They stop an evaluation that went wrong.
        *("Assert", "CheckNumerics", "CheckNumericsV2"),
        # Random numbers: nothing outside changes. `check` warns about them.
        *("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal"),
        *("ParameterizedTruncatedNormal", "Multinomial", "RandomShuffle", "RandomGamma"),
        *("RandomPoisson", "RandomPoissonV2", "RandomCrop", "StatelessRandomGetAlg"),
        # Arrays and stacks that live for one evaluation.
        *("TensorArrayV3", "TensorArrayReadV3", "TensorArrayWriteV3", "TensorArraySizeV3"),
        *("TensorArrayGatherV3", "TensorArrayScatterV3", "TensorArrayConcatV3"),
        *("TensorArraySplitV3", "TensorArrayCloseV3", "TensorArrayGradV3"),
        *("TensorArrayGradWithShape", "StackV2", "StackPushV2", "StackPopV2", "StackCloseV2"),
        # TensorFlow counts these as stateful so that it does not fold or merge them.
        *("Empty", "GuaranteeConst", "DeviceIndex", "XlaDequantize"),
        # StableHLO, as jax2tf writes it; the functions that it calls back are judged themselves.
        "XlaCallModule",
        # Kernels for GPUs in Keras's recurrent layers, in functions that take the place of others.
        *("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"),
        *("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"),
        # Other operations whose names match a pattern below.
        *("XlaOptimizationBarrier", "TensorScatterAdd", "ScatterNd", "ScatterNdNonAliasingAdd"),
        *("Batch" + name for name in ("MatMul", "MatMulV2", "MatMulV3", "ToSpace", "ToSpaceND")),
    }
)

# Matched whole, in this order.
_EFFECTS: tuple[tuple[Effect, str], ...] = (
    ("python", r"(Eager)?PyFunc(Stateless)?"),
    ("terminal", r"Print(V2)?"),
    ("process", r"Abort|Sleep\w*Op|For"),
    ("clock", r"Timestamp|GetDeadline"),
    ("network", r"\w*Rpc\w*|\w*DataService\w*|RegisterDataset\w*|RemoteCall|WorkerHeartbeat"),
    ("network", r"_?Nccl\w+|Collective\w+|_?(Host)?(Send|Recv)|XlaAllReduce|XlaReduceScatter"),
    ("network", r"DTensor\w+|CopyToMesh\w*|Relayout\w*|AllToAll|CrossReplicaSum"),
    ("dataset", r"\w*(Dataset|Iterator|MemoryCache|SeedGenerator|IterationCounter)\w*"),
    ("dataset", r"CompressElement|UncompressElement|\w*GetElementAtIndex|WindowOp"),
    ("table", r"\w*(HashTable|LookupTable)\w*|InitializeTable\w*"),
    ("files", r"(Read|Write)File|MatchingFiles|Save|SaveV2|SaveSlices|Restore|RestoreSlice"),
    ("files", r"RestoreV2|MergeV2Checkpoints|LoadAndRemapMatrix|GenerateVocabRemapping"),
    ("files", r"ImmutableConst|DumpTensor|DistributedSave|RecordInput|\w*CandidateSampler"),
    ("files", r"Debug\w+|Copy|CopyHost|CopyOp|(Decode|Encode)Proto\w*|FileSystem\w+"),
    ("files", r"\w*Reader\w*|CalibrationStatisticsSaver|Skipgram|NegTrain|CustomAggregator"),
    ("summary", r"\w*Summary\w*|\w*StatsAggregator\w*|ImportEvent|BoostedTreesExampleDebugOutputs"),
    ("queue", r"\w*Queue\w*|Barrier\w*|(OrderedMap|Map)(Un|Incomplete)?([Ss]tage|Peek|Size|Clear)\w*"),
    ("queue", r"(Un)?[Ss]tage\w*|\w*ThreadPool\w*|\w*Mutex\w*"),
    ("queue", r"Batch|BatchFunction|Unbatch(Grad)?|\w*(Conditional)?Accumulator\w*|_ParallelConcat\w+"),
    ("device", r"\w*(TPU|Tpu|Infeed|Outfeed|FromHost|ToHost|AtHost|HostCompute|SparseCore)\w*"),
    ("device", r"Xla(Send|Recv)|_?Xla(Compile|Run|Launch|Merge)\w*|SyncDevice|UpdateTaskId\w+|_Device\w+|_HostCast"),
    ("device", r"\w*(Minibatch|DedupData|CooTensor|StoreMini|PerReplica|SparseDenseMatmul)\w*"),
    ("device", r"Prelinearize\w*|GlobalIterId|_CopyFrom\w+|_ScopedAllocator\w*|DevicePlacementOp"),
    ("custom", r"XlaCustomCall(V2)?|MlirPassthroughOp|_XlaAotOnly\w+"),
    # A PartitionedCall is left out because it changes no more than the function that it calls.
    # What tfcompile turns into state of the compiled model, if the spec declares it.
    ("variable", r"Assign(Add|Sub)?VariableOp|Resource(Scatter|Apply|Strided)\w+"),
    ("variable", r"Stateful(Uniform|StandardNormal|TruncatedNormal|Random)\w*|Rng\w+"),
    ("state", r"Assign(Add|Sub)?|AssignVariableXlaConcatND|Inplace\w+"),
    ("state", r"Resource(Sparse|Accumulator)\w+|StridedSliceAssign"),
    ("state", r"Scatter\w+|(Sparse)?Apply\w+|(Resource)?CountUpTo|Stateful\w+"),
    ("state", r"(Destroy)?TemporaryVariable|\w*Session(Handle|Tensor)\w*|(Is)?BoostedTrees\w+"),
    ("state", r"NonDeterministicInts|SampleDistortedBoundingBox(V2)?|DisableCopyOnRead"),
    ("state", r"(Add|Take)\w*Sparse(To|From)TensorsMap|_?(Read|Var)\w*XlaSplitND|_\w*Variables?\w*Ops?"),
    ("state", r"Ref\w+|Stack(Push|Pop|Close)?|TensorArray\w*(?<!V3)|_?VarHandlesOp|_ReadVariablesOp"),
    ("state", r"\w*Resource(Op|Handle\w*)|\w*ResourceHandle\w*|IsResource\w+|DeepCopy"),
    ("state", r"IsTensorFloat32Enabled|GraphDefVersion|RequiresOlderGraphVersion|FakeQueue"),
    ("state", r"TestAttr|TwoRefsIn|DtypeWithDefaultOp|RiscWhile|_(If|While|Arg|Retval)|Old"),
    ("state", r"(Destroy|Create)\w*Op|ResourceCreateOp|ResourceInitializedOp|ResourceUsingOp"),
    ("state", r"SdcaOptimizer(V2)?|SdcaShrinkL1|KMC2\w+"),
)  # fmt: skip

TABLES_OF_CONSTANTS = re.compile(
    r"(Mutable(Dense)?|Anonymous(Mutable)?(Dense)?)?HashTable(OfTensors)?(V2)?"
    r"|(LookupTableImport|InitializeTable)V2"
)
"""Tables that loading may make and fill from tensors."""
SETS_VARIABLE = frozenset({"Assign", "AssignVariableOp"})


@cache
def reviewed_effect(op: str) -> Effect | None:
    """The effect of an operation by this table; None if the table has no entry."""
    if op in _HARMLESS:
        return ""
    return next((effect for effect, names in _EFFECTS if re.fullmatch(names, op)), None)
