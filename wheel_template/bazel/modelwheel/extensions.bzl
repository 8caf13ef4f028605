"""What modelwheel_library needs, for a MODULE.bazel."""

load(":repositories.bzl", "modelwheel_repositories")

modelwheel = module_extension(implementation = lambda _: modelwheel_repositories())
