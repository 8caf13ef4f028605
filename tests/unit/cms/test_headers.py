"""Headers of a model in one directory."""

from __future__ import annotations

from pathlib import Path

from modelwheel.cms.headers import flatten_headers


def test_includes_name_files_beside_them(tmp_path: Path) -> None:
    files = {
        "tfaot-model-my_net/model.h": '#include <vector>\n  #  include "modelwheel/a.hpp"\n#include "my.h"\n',
        "modelwheel/a.hpp": '#include "PhysicsTools/TensorFlowAOT/interface/Wrapper.h"\n#include "tfaot-model-my_net/x.h"',
        "PhysicsTools/TensorFlowAOT/interface/Wrapper.h": '#include "modelwheel/not-needed.hpp"',
        "modelwheel/not-needed.hpp": "",
        "tfaot-model-my_net/x.h": "#include <modelwheel/a.hpp>  // a circle",
        "my.h": "int x;",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert flatten_headers(tmp_path, "tfaot-model-my_net") == {
        "model.h": b'#include <vector>\n  #  include "modelwheel_a.h"\n#include "my.h"\n',
        "modelwheel_a.h": b'#include "PhysicsTools/TensorFlowAOT/interface/Wrapper.h"\n#include "x.h"',
        "x.h": b'#include "modelwheel_a.h"  // a circle',
        "my.h": b"int x;",
    }
