"""Compiles models in the build, as tf_library of TensorFlow does.

load("@rules_modelwheel//modelwheel:defs.bzl", "modelwheel_library")

modelwheel_library(
    name = "matmul",
    config = "matmul.config.pbtxt",
    cpp_class = "foo::bar::MatMulComp",
    graph = "matmul.pb",
)
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

def modelwheel_library(
        name,
        graph,
        config,
        cpp_class,
        freeze_checkpoint = None,
        freeze_saver = None,
        tfcompile_flags = None,
        gen_test = True,
        gen_benchmark = True,
        batch_sizes = None,
        targets = None,
        copts = None,
        deps = None,
        linkopts = None,
        modelwheel = None,
        spec = None,
        tags = None,
        testonly = None,
        visibility = None):
    """Compiles a graph of TensorFlow into a C++ class in a library.

    Three targets are made: NAME, a cc_library with the machine code and the header NAME.h; NAME_test, a cc_test that
    compares it with what TensorFlow computed; NAME_benchmark, a cc_binary that times each batch size.

    Args:
      name: Of the library, and of its header.
      graph: A GraphDef; as text if its name ends with .pbtxt.
      config: A tf2xla.Config; as text if its name ends with .pbtxt.
      cpp_class: The full name of the class, such as foo::bar::MatMulComp. With several batch sizes there is one for
        each, which ends with _bs and the number.
      freeze_checkpoint: The checkpoint with the values of variables: its file, or a filegroup of all its files.
      freeze_saver: A SaverDef: which of the graph's savers restores the checkpoint.
      tfcompile_flags: Flags as tfcompile's command line has them: a list, or words in one string. Those that change
        anything but the generated code are refused by name.
      gen_test: Whether there is NAME_test.
      gen_benchmark: Whether there is NAME_benchmark.
      batch_sizes: To compile, where the graph leaves the batch axis free.
      targets: CPU levels to compile for, such as ["x86-64-v3"]; by default all of this architecture but those for special
        arithmetic.
      copts: Of the test and the benchmark.
      deps: More libraries that NAME brings with it.
      linkopts: More options for linking with NAME.
      modelwheel: The command that compiles; by default the one that modelwheel_repositories has found.
      spec: More sections of the spec, such as {"keep_state": True, "verify": {"tolerance": {"rtol": 1e-3}}}.
      tags: Of all targets.
      testonly: Of NAME and NAME_benchmark.
      visibility: Of NAME, NAME_test and NAME_benchmark.
    """
    if freeze_saver and not freeze_checkpoint:
        fail("freeze_checkpoint must be specified when freeze_saver is specified")
    if type(tfcompile_flags) == type(""):
        tfcompile_flags = [flag for flag in tfcompile_flags.split(" ") if flag]
    include, library = name + ".include", "lib" + name + ".a"
    test, reference, reference_header = [
        "%s.tests/%s" % (name, file) if gen_test else None
        for file in ("test.c", "reference.bin", "reference.h")
    ]
    benchmark = name + ".tests/benchmark.c" if gen_benchmark else None
    _compile(
        name = include,
        batch_sizes = batch_sizes or [],
        benchmark = benchmark,
        checkpoint = freeze_checkpoint,
        config = config,
        cpp_class = cpp_class,
        graph = graph,
        header = name + ".h",
        library = library,
        model_name = _model_name(native.package_name(), name),
        modelwheel = modelwheel,
        reference = reference,
        reference_header = reference_header,
        saver = freeze_saver,
        spec = json.encode(spec or {}),
        tags = tags,
        targets = targets or [],
        test = test,
        testonly = testonly,
        tfcompile_flags = tfcompile_flags or [],
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = [library],
        hdrs = [name + ".h", include],
        defines = ["MODELWHEEL_STATIC"],
        includes = [include],
        linkopts = ["-lm"] + (linkopts or []),
        tags = tags,
        testonly = testonly,
        visibility = visibility,
        deps = deps or [],
    )
    if gen_test:
        cc_test(
            name = name + "_test",
            size = "small",
            srcs = [test, reference_header],
            args = ["$(location %s)" % reference],
            copts = copts or [],
            data = [reference],
            tags = tags,
            visibility = visibility,
            deps = [":" + name],
        )
    if gen_benchmark:
        cc_binary(
            name = name + "_benchmark",
            srcs = [benchmark],
            copts = copts or [],
            tags = tags,
            testonly = testonly,
            visibility = visibility,
            deps = [":" + name],
        )

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

def _model_name(package, name):
    """A name for each library of a program: the linker takes equal names for the same thing."""
    text = "".join([c if c in _LETTERS else " " for c in name.lower().elems()])
    words = "_".join([word for word in text.split(" ") if word])
    number = hash("%s//%s:%s" % (native.repository_name(), package, name))
    return "bazel_%s_%s" % (words[:32].strip("_") or "model", str(number).replace("-", "n"))

def _prefix(files):
    """The name of a checkpoint: what all of its files begin with."""
    names = [file.basename for file in files]
    for name in names:
        if name.endswith(".index"):
            return name[:-len(".index")]
    if len(names) == 1:
        return names[0]
    return names[0][:-len("-00000-of-00000")]

_HEADER = "bazel/class.h"
"""Where the class's header is in the bundle."""

def _compile_impl(ctx):
    include = ctx.actions.declare_directory(ctx.label.name)
    inputs = {"graph": [ctx.file.graph], "config": [ctx.file.config], "checkpoint": ctx.files.checkpoint}
    inputs["saver"] = [ctx.file.saver] if ctx.file.saver else []
    wanted = ("header", "library", "test", "benchmark", "reference", "reference_header")
    outputs = {kind: getattr(ctx.outputs, kind) for kind in wanted if getattr(ctx.outputs, kind)}
    outputs["include"] = include

    source = {
        "directory": "model",
        "path": "graph/" + ctx.file.graph.basename,
        "config": "config/" + ctx.file.config.basename,
        "format": "graph_def",
    }
    if ctx.files.checkpoint:
        source["checkpoint"] = "checkpoint/" + _prefix(ctx.files.checkpoint)
    if ctx.file.saver:
        source["freeze_saver"] = "saver/" + ctx.file.saver.basename
    compilation = {
        "cpp_class": ctx.attr.cpp_class,
        "cpp_header": _HEADER,
        "tfcompile_flags": ctx.attr.tfcompile_flags,
    }
    if ctx.attr.batch_sizes:
        compilation["batch_sizes"] = ctx.attr.batch_sizes
    spec = json.decode(ctx.attr.spec)
    own = {
        "model": {"name": ctx.attr.model_name, "version": "0"},
        "source": source,
        "compilation": compilation,
        "package": {"gen_test": "test" in outputs, "gen_benchmark": "benchmark" in outputs},
    }
    if ctx.attr.targets:
        own["targets"] = ctx.attr.targets
    for section in spec:
        if section in own or section == "targets":
            fail("spec has the section %s, which the other arguments decide; use these" % section)
    spec.update(own)
    spec_file = ctx.actions.declare_file(ctx.label.name + ".spec.json")
    ctx.actions.write(spec_file, json.encode(spec))

    arguments = ctx.actions.args()
    arguments.add_all([ctx.file._script, ctx.executable.modelwheel, spec_file, _HEADER])
    for directory, files in inputs.items():
        for file in files:
            arguments.add_all([directory, file.path])
    arguments.add("--")
    for kind, file in outputs.items():
        arguments.add_all([kind, file.path])
    ctx.actions.run(
        outputs = outputs.values(),
        inputs = [ctx.file._script, spec_file] + [file for files in inputs.values() for file in files],
        executable = "/bin/sh",
        arguments = [arguments],
        # modelwheel has a sandbox of its own, and a cache in the user's home.
        execution_requirements = {"local": "1"},
        mnemonic = "ModelwheelCompile",
        progress_message = "Compiling the model %s" % ctx.attr.cpp_class,
        tools = [ctx.executable.modelwheel],
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([include]))]

_compile = rule(
    implementation = _compile_impl,
    attrs = {
        "batch_sizes": attr.int_list(),
        "benchmark": attr.output(),
        "checkpoint": attr.label(allow_files = True),
        "config": attr.label(allow_single_file = True, mandatory = True),
        "cpp_class": attr.string(mandatory = True),
        "graph": attr.label(allow_single_file = True, mandatory = True),
        "header": attr.output(mandatory = True),
        "library": attr.output(mandatory = True),
        "model_name": attr.string(mandatory = True),
        "modelwheel": attr.label(
            allow_single_file = True,
            cfg = "exec",
            default = "@modelwheel_command//:modelwheel.sh",
            executable = True,
        ),
        "reference": attr.output(),
        "reference_header": attr.output(),
        "saver": attr.label(allow_single_file = True),
        "spec": attr.string(default = "{}"),
        "targets": attr.string_list(),
        "test": attr.output(),
        "tfcompile_flags": attr.string_list(),
        "_script": attr.label(allow_single_file = True, default = ":compile.sh"),
    },
)
