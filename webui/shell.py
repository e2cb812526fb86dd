"""The frame of every page: wordmark, ways to the other pages, and the promise at the foot."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import gradio as gr

WAVE = "c4.3 0 4.3-4 8.7-4s4.3 4 8.6 4 4.4-4 8.7-4"  # the river, three times, each fainter
MARK = (
    '<svg class="wave" viewBox="0 0 32 32" aria-hidden="true">'
    f'<path d="M3 12{WAVE}"/><path d="M3 18.5{WAVE}" opacity=".62"/><path d="M3 25{WAVE}" opacity=".3"/></svg>'
)
HALF_SUN = (
    '<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">'
    '<path d="M12 4a8 8 0 1 0 0 16z" fill="currentColor"/><path d="M12 4a8 8 0 0 1 0 16"/></svg>'
)


def header(pages: Iterable, current) -> gr.HTML:
    """Links are relative, so that the studio may live under any path."""
    links = "".join(
        f'<a href="./{page.path}"{" aria-current=page" if page is current else ""}>{page.title}</a>' for page in pages
    )
    template = (
        '<a class="skip" href="#content">Skip to the content</a><header class="bar">'
        f'<a class="mark" href="./" aria-label="Lethe, start page">{MARK}<span>Lethe</span></a>'
        f'<nav aria-label="Pages">{links}</nav>'
        f'<button type="button" class="turn" aria-label="Light or dark">{HALF_SUN}</button></header>'
    )
    script = f'window.lethe?.enter("{current.title}", element);'
    return gr.HTML(html_template=template, js_on_load=script, apply_default_css=False, elem_classes=["header-host"])


def footer() -> gr.HTML:
    template = (
        '<footer class="foot"><p><strong>Nothing leaves this machine.</strong> '
        "Photos are read in memory, models run here, and the page can reach no other host.</p>"
        '<p><a href="./help">Help, keys and privacy</a></p></footer>'
    )
    script = "document.body.append(element.firstElementChild);"
    return gr.HTML(html_template=template, js_on_load=script, apply_default_css=False, elem_classes=["footer-host"])


def keep_stream(demo: gr.Blocks) -> None:
    """Gradio closes its stream to a page when nothing is pending, and an event that begins at that moment is lost
    (1 of 40 clicks right after a page had loaded). So one event is always pending while a page is open. Gradio sees
    that a page is gone when the event next says something: it speaks often enough to give its place back soon."""

    async def linger() -> AsyncIterator[None]:
        while True:
            await asyncio.sleep(5)
            yield

    demo.load(linger, concurrency_limit=None, api_visibility="private", show_progress="hidden")
