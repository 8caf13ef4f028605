"""Finds the command modelwheel on the machine that builds."""

_SCRIPT = """\
#!/bin/sh
# {version}
exec '{command}' "$@"
"""

_INSTALL = "pip install 'modelwheel[build]', then put its directory into PATH or set --repo_env=MODELWHEEL=PATH"

def _command_impl(repository_ctx):
    given = repository_ctx.os.environ.get("MODELWHEEL") or "modelwheel"
    command = given if given.startswith("/") else repository_ctx.which(given)
    if not command:
        fail("there is no command %s: %s" % (given, _INSTALL))
    found = repository_ctx.execute([command, "--version"])
    if found.return_code != 0:
        fail("%s --version failed: %s%s; %s" % (command, found.stdout, found.stderr, _INSTALL))
    script = _SCRIPT.format(command = str(command).replace("'", "'\\''"), version = found.stdout.strip())
    repository_ctx.file("modelwheel.sh", script, executable = True)
    repository_ctx.file("BUILD.bazel", "exports_files([\"modelwheel.sh\"])\n", executable = False)

modelwheel_command = repository_rule(
    implementation = _command_impl,
    configure = True,
    doc = "A repository with modelwheel.sh, which runs the modelwheel of MODELWHEEL or PATH.",
    environ = ["MODELWHEEL", "PATH"],
    local = True,
)

def modelwheel_repositories():
    """What modelwheel_library needs, for a WORKSPACE."""
    modelwheel_command(name = "modelwheel_command")
