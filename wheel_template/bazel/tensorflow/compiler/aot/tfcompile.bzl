"""tf_library with the arguments that TensorFlow's tfcompile.bzl gives it, compiled by modelwheel."""

load("//modelwheel:defs.bzl", "modelwheel_library")

def tf_library(
        name,
        graph,
        config,
        debug_info = None,
        freeze_checkpoint = None,
        freeze_saver = None,
        cpp_class = None,
        gen_test = True,
        gen_benchmark = True,
        gen_compiler_log = False,
        visibility = None,
        testonly = None,
        tfcompile_flags = None,
        tfcompile_tool = None,
        include_standard_runtime_deps = True,
        enable_xla_hlo_profiling = False,
        enable_tracemes = False,
        mlir_components = "None",
        deps = None,
        tags = [],
        copts = [],
        xla_flags = None):
    """See modelwheel_library. An argument that modelwheel cannot follow is refused.

    Args:
      name: See modelwheel_library.
      graph: See modelwheel_library.
      config: See modelwheel_library.
      debug_info: Must be None: messages name the nodes of the graph.
      freeze_checkpoint: See modelwheel_library.
      freeze_saver: See modelwheel_library.
      cpp_class: See modelwheel_library.
      gen_test: See modelwheel_library.
      gen_benchmark: See modelwheel_library.
      gen_compiler_log: Must be False.
      visibility: See modelwheel_library.
      testonly: See modelwheel_library.
      tfcompile_flags: See modelwheel_library.
      tfcompile_tool: The `modelwheel` of modelwheel_library.
      include_standard_runtime_deps: Either: the library needs no runtime.
      enable_xla_hlo_profiling: Must be False: `modelwheel profile` times each step.
      enable_tracemes: Must be False: `modelwheel profile` times each step.
      mlir_components: Must be "None".
      deps: See modelwheel_library.
      tags: See modelwheel_library.
      copts: See modelwheel_library.
      xla_flags: Flags of XLA: words in one string. Fast arithmetic is off unless they switch it on.
    """
    if not cpp_class:
        fail("cpp_class must be specified")
    profile = "`modelwheel profile` times each step of a model"
    for argument, is_given, instead in (
        ("debug_info", debug_info != None, "messages name the nodes of the graph"),
        ("gen_compiler_log", gen_compiler_log, "a failing build shows what the compiler said"),
        ("enable_xla_hlo_profiling", enable_xla_hlo_profiling, profile),
        ("enable_tracemes", enable_tracemes, profile),
        ("mlir_components", mlir_components != "None", "graphs are converted without MLIR"),
    ):
        if is_given:
            fail("tf_library(name = \"%s\"): modelwheel has no %s; remove it: %s" % (name, argument, instead))
    flags = tfcompile_flags or []
    if type(flags) == type(""):
        flags = [flag for flag in flags.split(" ") if flag]
    modelwheel_library(
        name = name,
        config = config,
        copts = copts,
        cpp_class = cpp_class,
        deps = deps,
        freeze_checkpoint = freeze_checkpoint,
        freeze_saver = freeze_saver,
        gen_benchmark = gen_benchmark,
        gen_test = gen_test,
        graph = graph,
        modelwheel = tfcompile_tool,
        tags = tags,
        testonly = testonly,
        tfcompile_flags = flags + [flag for flag in (xla_flags or "").split(" ") if flag],
        visibility = visibility,
    )
