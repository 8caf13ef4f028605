"""A release area of CMSSW without CMSSW: what `scram setup`, `scram build` and `cmsRun` do with a tool, a plug-in and a configuration.

Headers and modules of the framework are the stand-ins in `tests/integration/programs/cmssw`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.support.commands import run

ROOT = Path(__file__).parents[2]
STAND_INS = ROOT / "tests" / "integration" / "programs" / "cmssw"
TEMPLATES = ROOT / "wheel_template"

TENSORFLOW_AOT = tuple(TEMPLATES / name / "include" for name in ("cmssw", "model", "common"))
"""Where the headers of PhysicsTools/TensorFlowAOT are; inside CMSSW they are its own."""

_STRICT = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")

_DUMP = """\
import json, runpy
process = runpy.run_path({config!r})["process"]
print(json.dumps([process.maxEvents.input, [vars(module) for module in process.p]]))
"""


@dataclass
class ReleaseArea:
    """A directory in which plugins are built and run."""

    base: Path
    interface: Sequence[Path] = TENSORFLOW_AOT
    """Where `PhysicsTools/TensorFlowAOT` is."""
    tools: dict[str, Path] = field(default_factory=dict)

    def setup(self, tool_file: Path) -> None:
        """`scram setup FILE`: the tool must have its name and place in the file."""
        name = ET.parse(tool_file).getroot().attrib["name"]
        assert tool_file.name == f"{name}.xml"
        self.tools[name] = tool_file

    def _options(self, tool: str) -> Iterator[str]:
        """The compiler's and linker's options of a used tool; variables of its file are expanded."""
        if tool == "PhysicsTools/TensorFlowAOT":
            yield from (f"-I{path}" for path in self.interface)
        if tool not in self.tools:
            assert tool.startswith(("FWCore/", "PhysicsTools/")), f"there is no tool {tool}"
            return
        root = ET.parse(self.tools[tool]).getroot()
        values = {"CMSSW_BASE": str(self.base)}
        for variable in root.findall("client/environment"):
            name, default = variable.attrib["name"], variable.attrib["default"]
            values[name] = _expand(default, values)
        assert Path(values["INCLUDE"]).is_dir()
        assert Path(values["LIBDIR"]).is_dir()
        yield f"-I{values['INCLUDE']}"
        yield from (_expand(one.attrib["LDFLAGS"], values) for one in root.findall("flags"))
        for library in root.findall("lib"):
            yield from (f"-L{values['LIBDIR']}", f"-l{library.attrib['name']}")
            yield f"-Wl,-rpath,{values['LIBDIR']}"

    def build(self, module: Path) -> Path:
        """`scram build`: compiles `plugins/` of a module as its BuildFile says, and writes its `_cfi.py`; the plug-in."""
        build_file = ET.fromstring(
            f"<all>{(module / 'plugins' / 'BuildFile.xml').read_text()}</all>"
        )
        assert [flags.attrib for flags in build_file.findall("flags")] == [{"EDM_PLUGIN": "1"}]
        used = [use.attrib["name"] for use in build_file.findall("use")]
        options = [option for tool in used for option in self._options(tool)]
        include = f"-I{STAND_INS / 'include'}"
        plugin = self.base / "plugin.so"
        sources = sorted((module / "plugins").glob("*.cpp"))
        compiler = ("c++", *_STRICT, include)
        linked = ("-shared", "-fPIC", "-Wl,--no-undefined", *options)
        run(*compiler, *sources, "-o", plugin, *linked)
        run(*compiler, STAND_INS / "cmsRun.cpp", "-o", self.runner, "-ldl")
        self._write_cfi(plugin, module)
        return plugin

    @property
    def runner(self) -> Path:
        """The program that runs plugins."""
        return self.base / "cmsRun"

    def _write_cfi(self, plugin: Path, module: Path) -> None:
        name, *parameters = run(self.runner, plugin).out.split()
        label = name[0].lower() + name[1:]
        package = self.base / "python" / module.parent.name / module.name
        package.mkdir(parents=True, exist_ok=True)
        arguments = "".join(f", {one}=cms.required.vstring" for one in parameters)
        (package / f"{label}_cfi.py").write_text(
            f"import FWCore.ParameterSet.Config as cms\n{label} = cms.EDAnalyzer({name!r}{arguments})\n"
        )

    def run(self, plugin: Path, config: Path) -> str:
        """`cmsRun CONFIG`; what the one module of its path prints."""
        search = f"{STAND_INS / 'python'}:{self.base / 'python'}"
        dumped = run(sys.executable, "-c", _DUMP.format(config=str(config)), PYTHONPATH=search)
        events, (parameters,) = json.loads(dumped.out)
        assert parameters.pop("type_") == run(self.runner, plugin).out.split()[0]
        given = [f"{name}={value}" for name, values in parameters.items() for value in values]
        return run(self.runner, plugin, str(events), *given).out


def _expand(text: str, values: Mapping[str, str]) -> str:
    """Replaces `$NAME`, which must be known."""
    return re.sub(r"\$(\w+)", lambda match: values[match[1]], text)
