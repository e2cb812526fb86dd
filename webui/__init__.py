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


def _keep_props_when_skipped() -> None:
    """An output that a handler leaves alone reaches a gr.HTML as `props = {"__type__": "update"}`: its own props are
    wiped, and what another message had set a moment before is never drawn. Without that key nothing is sent."""
    import gradio.blocks

    real = gradio.blocks.postprocess_update_dict

    def postprocess_update_dict(block: object, update_dict: dict, postprocess: bool = True) -> dict:
        return real(block, {key: value for key, value in update_dict.items() if key != "__type__"}, postprocess)

    gradio.blocks.postprocess_update_dict = postprocess_update_dict


_keep_props_when_skipped()
