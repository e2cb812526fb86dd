"""Which of a page's requests is its last. An older one that is still drawing sees that, and ends."""

import gradio as gr


class Latest:
    """One for each part of a page that draws in portions."""

    def __init__(self) -> None:
        self._asked: dict[str, object] = {}  # by page load

    def begin(self, request: gr.Request) -> object:
        """From now on this request is the last one; `is_last` takes what this gives."""
        mine = self._asked[request.session_hash] = object()
        return mine

    def is_last(self, request: gr.Request, mine: object) -> bool:
        return self._asked.get(request.session_hash) is mine

    def end(self, request: gr.Request) -> None:
        """Nothing is being drawn any more, nor may an older request go on."""
        self._asked.pop(request.session_hash, None)
