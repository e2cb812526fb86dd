"""The report as one JSON value and as one HTML file that needs nothing else: no script, no font, no other host."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

FORMAT = 1
STYLE = """
:root { color-scheme: light dark; --ink: #1c2327; --soft: #565a58; --paper: #f6f3ec; --card: #fffdf9; --line: #e3ddcf;
  --accent: #0f575b; --good: #2c6e49; --warn: #8a5a00; --bad: #97281d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e9e6de; --soft: #a3adb1; --paper: #0d1317; --card: #141c21;
  --line: #26323a; --accent: #7fcdc8; --good: #7fcf9f; --warn: #e5b567; --bad: #f4a59b; } }
body { margin: 0 auto; max-width: 860px; padding: 32px 20px 64px; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 12px; } h2 { font-size: 20px; margin: 36px 0 12px; }
h3 { font-size: 17px; margin: 0; } p { margin: 6px 0; } .quiet { color: var(--soft); font-size: 14px; }
section { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--line);
  border-radius: 12px; padding: 16px 18px; margin: 12px 0; break-inside: avoid; }
section.good { border-left-color: var(--good); } section.warn { border-left-color: var(--warn); }
section.bad { border-left-color: var(--bad); } .lead { font-size: 20px; font-weight: 600; }
.top { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 16px; }
.scale { display: grid; grid-template-columns: 90px 1fr; gap: 4px 12px; align-items: center; margin: 10px 0; }
.scale span { font-size: 14px; color: var(--soft); } svg { display: block; width: 100%; height: 14px; }
.shots { display: flex; gap: 14px; margin-top: 10px; } figure { margin: 0; } img { width: 112px; border-radius: 8px;
  display: block; } figcaption { font-size: 13px; color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; margin: 0; } dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; } code { font: 14px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
"""
Pictures = Mapping[str, Mapping[str, bytes]]  # attack -> side -> webp


def html(report: Mapping[str, Any], pictures: Pictures | None = None) -> str:
    """Everything the report holds, on one page."""
    first, *rest = report["verdict"]
    subject = report["subject"]
    parts = [
        f"<h1>Audit: {_say(subject['request'])}</h1>",
        f"<p class=lead>{_say(first)}</p>",
        *(f"<p>{_say(line)}</p>" for line in rest),
        "<h2>What was tried</h2>",
        f"<p class=quiet>Attacker: {_say(report['aim']['attacker'])}. Judge: {_say(report['aim']['judge'])}.</p>",
        *(_finding(finding, (pictures or {}).get(finding["name"], {})) for finding in report["findings"]),
        "<h2>What should have stayed</h2>",
        *(_fact(kept["what"], kept["words"], kept["is_good"], f"{kept['samples']} samples") for kept in report["kept"]),
        "" if report["kept"] else "<p class=quiet>Not looked at: the audit was stopped before.</p>",
        "<h2>Integrity</h2>",
        *(_fact(fact["what"], fact["words"], fact["is_good"]) for fact in report["integrity"]),
        "<h2>How it was made</h2>",
        f"<section>{_list(_making(report))}</section>",
    ]
    title = f"Audit of {_say(subject['name'])}"
    head = f'<meta charset=utf-8><meta name=viewport content="width=device-width"><title>{title}</title>'
    return f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>"


def _finding(finding: Mapping[str, Any], shots: Mapping[str, bytes]) -> str:
    top = f"<div class=top><h3>{_say(finding['title'])}</h3><span>{finding['says']}</span></div>"
    scales = "".join(_scale(name, finding[side]) for side, name in SIDES.items() if side in finding)
    drawn = f"<div class=scale>{scales}</div>" if scales else ""
    seen = f"<div class=shots>{''.join(_shot(side, shots[side]) for side in SIDES if side in shots)}</div>"
    how = f"Tried: {finding['tried']}. Budget on each model: {finding['budget']}. Seeds: {finding['seeds']}."
    words = f"<p>{_say(finding['words'])}</p>"
    return (
        f'<section class="{finding["tone"]}">{top}{words}{drawn}{seen if shots else ""}'
        f"<p class=quiet>{_say(how)}</p></section>"
    )


SIDES = {"before": "base", "after": "unlearned"}


def _scale(name: str, side: Mapping[str, Any]) -> str:
    """Where the value lies between 0 and 1, with its interval."""
    value, low, high = side["scale"]
    bars = [
        (0, 4, 100, 6, "var(--line)", 1),
        (low, 4, max(high - low, 0.5), 6, "var(--accent)", 0.35),
        (value - 0.6, 0, 1.2, 14, "var(--accent)", 1),
    ]
    drawn = "".join(
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{fill}" opacity="{opacity}"/>'
        for x, y, width, height, fill, opacity in bars
    )
    return f'<span>{name}</span><svg viewBox="-1 0 102 14" preserveAspectRatio="none" role="img">{drawn}</svg>'


def _shot(side: str, content: bytes) -> str:
    source = f"data:image/webp;base64,{base64.b64encode(content).decode()}"
    words = f"best try, {SIDES[side]}"
    return f'<figure><img src="{source}" alt="{words}"><figcaption>{words}</figcaption></figure>'


def _fact(what: str, words: str, is_good: bool | None, more: str = "") -> str:
    tone = "" if is_good is None else "good" if is_good else "bad"
    note = f" <span class=quiet>{_say(more)}</span>" if more else ""
    return f'<section class="{tone}"><h3>{_say(what)}</h3><p>{_say(words[:1].upper() + words[1:])}{note}</p></section>'


def _making(report: Mapping[str, Any]) -> dict[str, str]:
    subject, machine = report["subject"], report["machine"]
    budget = ", ".join(f"{name} {value}" for name, value in report["budget"].items())
    return {
        "Erasure": subject["name"],
        "Base": f"{subject['base']}, fingerprint {subject['fingerprint']}",
        "Method": subject["method"],
        "On top of": ", ".join(subject["on_top_of"]) or "nothing",
        "Budget": budget,
        "Made": f"{report['made']}, in {report['seconds']:.0f} s on {machine['device']}, torch {machine['torch']}",
        "Again": f"<code>{_say(report['command'])}</code>",
    }


def _list(facts: Mapping[str, str]) -> str:
    rows = (f"<dt>{name}</dt><dd>{value if name == 'Again' else _say(value)}</dd>" for name, value in facts.items())
    return f"<dl>{''.join(rows)}</dl>"


def _say(text: Any) -> str:
    return escape(str(text))


def command(subject: str, target: Mapping[str, Any], budget: Sequence[tuple[str, Any]]) -> str:
    """What makes the report again. A photo is never stored, so it must be given again."""
    given = {"Photo": " --photo PHOTO", "Seeds": f" --person {(target.get('seeds') or [0])[0]}"}.get(target["kind"], "")
    knobs = "".join(f" --{name.replace('_', '-')}{'' if value is True else f' {value}'}" for name, value in budget)
    return f"python app.py audit {subject}{given}{knobs} --report audit.html"
