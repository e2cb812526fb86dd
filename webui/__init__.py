"""The page: everything a visitor sees. It knows no tensors; it asks engine.studio.Studio."""

import inspect


def _import_gradio_quickly() -> None:
    """Gradio writes type stubs for its 81 component classes at every import, nearly half of its import time.

    It leaves out classes without a source file, so while it is imported its classes say that they have none.
    """
    real = inspect.getfile

    def getfile(thing: object) -> str:
        if isinstance(thing, type) and thing.__module__.startswith("gradio."):
            raise OSError(thing)
        return real(thing)

    inspect.getfile = getfile
    try:
        import gradio  # noqa: F401
    finally:
        inspect.getfile = real


_import_gradio_quickly()
