"""The zoo: models of every kind, made by code, and what becomes of each; docs/zoo.md has the result.

`make zoo` writes that page. The parts, for other tests:

- `cases.CASES` lists every `Case`: the name, the module of `tests.models` that writes the model, its place below the
  directory that the module is given, what its spec says, and whether it must be refused. `cases.SUBSET` has those that
  are quick and between them every format: what other processors, systems and reports should run.
- `visit.make_models(cases, directory)` writes their models, importing TensorFlow once. `Case.write_spec` writes a spec.
- `visit.compile_cases(cases, work, modelwheel, levels, platforms)` compiles them in one go, up to the projects that
  wheels are made from; `tests.support.projects_of_models` links their libraries and makes Python packages without CMake,
  for this machine or with zig for others.
- `visit.visit(cases, work, modelwheel, levels)` does all this on this machine, and compares with TensorFlow.

The inputs of a case are those of its package's self-test: `_reference.load_samples()` in the package has them with
TensorFlow's outputs; `compare.py` runs the self-tests of all packages in a directory, under any Python.
"""
