"""Our own look: paper by day, ink by night, the river's teal as the one accent. Colours pass WCAG AA."""

from pathlib import Path

import gradio as gr

HERE = Path(__file__).parent

SANS = ["-apple-system", "Segoe UI", "Roboto", "Ubuntu", "Cantarell", "Noto Sans", "Helvetica Neue", "Liberation Sans"]
SANS += ["Arial", "sans-serif"]
MONO = ["ui-monospace", "SF Mono", "Consolas", "Liberation Mono", "monospace"]

TEAL = gr.themes.Color(
    "#eef6f5", "#d8eae8", "#b3d6d3", "#86bdba", "#559f9d", "#2f8283", "#186a6d", "#0f575b", "#0d474b", "#0b3a3e",
    "#062427", name="teal",
)  # fmt: skip
STONE = gr.themes.Color(
    "#fbfaf6", "#f5f2ea", "#e6e1d5", "#d3ccbc", "#a39d90", "#777369", "#57554e", "#3f3f3b", "#2a2d2e", "#1a2024",
    "#0e1418", name="stone",
)  # fmt: skip

# name -> (light, dark)
COLOURS = {
    "body_background_fill": ("#f6f3ec", "#0d1317"),
    "body_text_color": ("#1c2327", "#e9e6de"),
    "body_text_color_subdued": ("#565a58", "#a3adb1"),
    "background_fill_primary": ("#fffdf9", "#141c21"),
    "background_fill_secondary": ("#f1ede3", "#10171b"),
    "block_background_fill": ("#fffdf9", "#141c21"),
    "block_border_color": ("#e3ddcf", "#26323a"),
    "block_label_background_fill": ("#fffdf9", "#141c21"),
    "block_label_text_color": ("#565a58", "#a3adb1"),
    "block_title_text_color": ("#1c2327", "#e9e6de"),
    "block_info_text_color": ("#565a58", "#a3adb1"),
    "border_color_primary": ("#e3ddcf", "#26323a"),
    "border_color_accent": ("#0f575b", "#7fcdc8"),
    "color_accent_soft": ("#d8eae8", "#173236"),
    "input_background_fill": ("#fffdf9", "#0f171b"),
    "input_background_fill_focus": ("#fffdf9", "#0f171b"),
    "input_border_color": ("#8f897c", "#5b6a72"),
    "input_border_color_focus": ("#0f575b", "#7fcdc8"),
    "input_placeholder_color": ("#6b6a63", "#8d999f"),
    "button_primary_background_fill": ("#0f575b", "#7fcdc8"),
    "button_primary_background_fill_hover": ("#0b3f43", "#9bdad6"),
    "button_primary_text_color": ("#ffffff", "#06201f"),
    "button_primary_border_color": ("#0f575b", "#7fcdc8"),
    "button_secondary_background_fill": ("#fffdf9", "#182227"),
    "button_secondary_background_fill_hover": ("#f1ede3", "#1f2b31"),
    "button_secondary_text_color": ("#1c2327", "#e9e6de"),
    "button_secondary_border_color": ("#bdb6a6", "#3b4a53"),
    "button_cancel_background_fill": ("#fffdf9", "#182227"),
    "button_cancel_text_color": ("#97281d", "#f4a59b"),
    "button_cancel_border_color": ("#97281d", "#f4a59b"),
    "link_text_color": ("#0f575b", "#7fcdc8"),
    "link_text_color_hover": ("#0b3f43", "#9bdad6"),
    "link_text_color_active": ("#0b3f43", "#9bdad6"),
    "link_text_color_visited": ("#0f575b", "#7fcdc8"),
    "slider_color": ("#0f575b", "#7fcdc8"),
    "checkbox_background_color_selected": ("#0f575b", "#2f8283"),
    "checkbox_border_color": ("#8f897c", "#5b6a72"),
    "checkbox_border_color_selected": ("#0f575b", "#7fcdc8"),
    "checkbox_label_background_fill": ("#fffdf9", "#182227"),
    "checkbox_label_background_fill_selected": ("#d8eae8", "#173236"),
    "checkbox_label_text_color_selected": ("#1c2327", "#e9e6de"),
    "checkbox_label_border_color": ("#bdb6a6", "#3b4a53"),
    "error_background_fill": ("#fbeae7", "#2c1613"),
    "error_text_color": ("#97281d", "#f4a59b"),
    "error_border_color": ("#d9a39c", "#5c2c26"),
    "panel_background_fill": ("#f6f3ec", "#0d1317"),
    "table_even_background_fill": ("#fffdf9", "#141c21"),
    "table_odd_background_fill": ("#f6f3ec", "#10171b"),
    "accordion_text_color": ("#1c2327", "#e9e6de"),
}  # fmt: skip

PLAIN = {
    "block_border_width": "1px",
    "block_shadow": "none",
    "block_shadow_dark": "none",
    "block_radius": "12px",
    "block_label_radius": "8px",
    "block_title_text_weight": "600",
    "block_title_text_size": "*text_sm",
    "button_large_radius": "10px",
    "button_medium_radius": "10px",
    "button_small_radius": "8px",
    "button_large_text_size": "*text_md",
    "button_large_text_weight": "600",
    "button_primary_shadow": "none",
    "button_primary_shadow_hover": "none",
    "button_secondary_shadow": "none",
    "button_border_width": "1px",
    "container_radius": "12px",
    "input_radius": "8px",
    "input_border_width": "1px",
    "input_shadow": "none",
    "input_shadow_focus": "none",
    "layout_gap": "20px",
    "form_gap_width": "12px",
}


def theme() -> gr.themes.Base:
    made = gr.themes.Base(primary_hue=TEAL, secondary_hue=TEAL, neutral_hue=STONE, font=SANS, font_mono=MONO)
    shades = {name: light for name, (light, _) in COLOURS.items()}
    shades |= {f"{name}_dark": dark for name, (_, dark) in COLOURS.items()}
    return made.set(**shades, **PLAIN)


def first_script() -> str:
    """What must run before Gradio's own scripts; its `head=` comes after them."""
    return f"<script>{(HERE / 'calm.js').read_text()}</script>"


def head() -> str:
    """Our sheets and scripts. As `css=` Gradio would rewrite the rules and lose those for the bar on small screens."""
    names = ("style", "grid", "compare", "charts", "tasks", "person", "audit", "tour")
    sheets = "\n".join((HERE / f"{name}.css").read_text() for name in names)
    scripts = "".join(f"<script>{(HERE / f'{name}.js').read_text()}</script>" for name in ("shell", "tour"))
    return f"<style>{sheets}</style>{scripts}"
