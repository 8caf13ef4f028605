"""Programs that misuse an installed wheel; each must end with an answer, not with a signal or a wait."""

from __future__ import annotations

CALLERS = {
    "a program makes a model without its constructor": """
        from model_digits._core import Evaluator
        Evaluator.__new__(Evaluator).run(())
    """,
    "a pickle names the constructor of an internal class": r"""
        import pickle
        pickle.loads(b"cmodel_digits._core\nEvaluator\n)\x81.").batch_rule(3)
    """,
    "a program asks for 2^62 rows": """
        import model_digits
        model_digits.Model().batch_rule(2**62)
    """,
    "a program gives a masked array": """
        import numpy as np, model_digits
        model_digits.Model()(np.ma.masked_array(np.zeros((2, 64), np.float32), mask=True))
    """,
    "a program gives text that would be cut in a character": """
        import model_digits
        model_digits.Model(level="x" + "é" * 400)
    """,
    "a program ends while a thread is in a call": """
        import threading, time, numpy as np, model_digits
        model, rows = model_digits.Model(), np.zeros((4096, 64), np.float32)
        def call():
            while True:
                model(rows)
        for _ in range(4):
            threading.Thread(target=call, daemon=True).start()
        time.sleep(0.5)
        raise SystemExit("ended as usual")
    """,
    "a program imports a model in a sub-interpreter": """
        try:
            import _interpreters as interpreters
        except ModuleNotFoundError:
            import _xxsubinterpreters as interpreters
        said = interpreters.run_string(interpreters.create(), "import model_digits")
        raise SystemExit(f"went on: {said}")
    """,
}
"""What each tries, and its source, which ends with an exception whose text is the answer."""
