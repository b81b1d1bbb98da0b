"""What happens first when a reader or a writer arrives at a worker: is headrace there, and the same one?

Spark sends them as pickles, which name the classes in them. A worker that has no headrace would report this
with the traceback of Spark's unpickling, and another version with whatever breaks first. So a pickle holds
the function below as code, not as a name: it runs where there is no headrace, checks what is there, and only
then unpickles the rest. It must not use anything from outside itself.
"""

from __future__ import annotations

from typing import Any


def arrive(version: str, package: bytes) -> Any:
    """What is in the package, made by this version of headrace."""
    import os
    import pickle
    import platform
    import sys

    def refusal(text: str) -> Exception:
        # Has the name that it has where headrace is installed, so that commands find the line: see `failure`.
        kind = type("DataSourceError", (Exception,), {"__module__": "headrace.spark.failure"})
        if not os.environ.get("HEADRACE_TRACEBACK"):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        return kind(text)  # type: ignore[no-any-return]

    where = f"{sys.executable} on {platform.node()}"
    try:
        from headrace import __version__ as found
    except ImportError as error:
        raise refusal(
            f"the Python of the workers ({where}) has no headrace ({error}); "
            f"install headrace[spark]=={version} there, or send it along with --archives"
        ) from None
    if found != version:
        raise refusal(
            f"the driver has headrace {version}, but the Python of the workers ({where}) has {found}; "
            "install the same version everywhere"
        )
    try:
        kind, state = pickle.loads(package)
    except ImportError as error:
        raise refusal(
            f"the headrace of the workers ({where}) lacks something: {error}; "
            f"install headrace[spark]=={version} there"
        ) from None
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made
